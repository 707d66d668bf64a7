//! A process's context: published here and read by another's reader, the other way round, and across processes.

use libdd_library_config::otel_process_ctx as theirs;
use libdd_trace_protobuf::opentelemetry::proto::common::v1 as common;
use libdd_trace_protobuf::opentelemetry::proto::resource::v1::Resource;
use perfring_context::{ContextError, PROCESS_CONTEXT_MOST, ProcessContext, publish};
use perfring_context_tests::{Answering, answer, role};

fn value(value: common::any_value::Value) -> Option<common::AnyValue> {
    Some(common::AnyValue { value: Some(value) })
}

fn their_context() -> common::ProcessContext {
    use common::any_value::Value;
    let pair = |key: &str, of| common::KeyValue {
        key: key.to_owned(),
        value: value(of),
        ..Default::default()
    };
    let attributes = vec![
        pair("service.name", Value::StringValue("theirs".to_owned())),
        pair("process.pid", Value::IntValue(-7)),
        pair("sampled", Value::BoolValue(true)),
        pair("list", Value::ArrayValue(common::ArrayValue::default())),
    ];
    common::ProcessContext {
        resource: Some(Resource { attributes, ..Resource::default() }),
        extra_attributes: vec![pair(
            "threadlocal.schema_version",
            Value::StringValue("tls_v1".to_owned()),
        )],
    }
}

/// What their reader finds in this process, as `name=value` of texts.
fn theirs_read() -> String {
    let reader = theirs::ProcessContextSelfReader::new().unwrap();
    let context = reader.read().unwrap();
    let text = |pair: &common::KeyValue| match pair.value.as_ref()?.value.as_ref()? {
        common::any_value::Value::StringValue(text) => Some(format!("{}={text}", pair.key)),
        _ => None,
    };
    let attributes = &context.resource.as_ref().unwrap().attributes;
    attributes.iter().filter_map(text).collect::<Vec<_>>().join(",")
}

fn child() {
    answer(|question| match question.split_once(' ') {
        Some(("publish", text)) => {
            match publish([("service.name", text), ("service.version", "1")]) {
                Ok(()) => "done".to_owned(),
                Err(error) => error.to_string(),
            }
        }
        _ if question == "theirs" => format!("{:?}", theirs::publish(&their_context()).is_ok()),
        _ if question == "theirs read" => theirs_read(),
        _ if question == "own" => {
            format!("{:?}", ProcessContext::own().unwrap().map(|own| own.attributes))
        }
        // A forked child's own context, before and after it has published one: its exit code.
        _ if question == "fork" => {
            // SAFETY: the child calls functions of this test and ends.
            let fork = unsafe { nix::unistd::fork() }.unwrap();
            if let nix::unistd::ForkResult::Parent { child } = fork {
                return format!("{:?}", nix::sys::wait::waitpid(child, None).unwrap());
            }
            let none = ProcessContext::own().is_ok_and(|own| own.is_none());
            let own = publish([("service.name", "child")]).is_ok()
                && ProcessContext::own().unwrap().unwrap().get("service.name") == Some("child");
            std::process::exit(i32::from(!none) + 2 * i32::from(!own));
        }
        other => panic!("{other:?}"),
    });
}

#[test]
fn a_context_is_read_by_whoever_may_trace_the_process() {
    if role().is_some() {
        return child();
    }
    let test = "process::a_context_is_read_by_whoever_may_trace_the_process";
    let start = || Answering::start(test, "child").unwrap();

    // Ours, read by us from outside and by their reader from inside.
    let mut process = start();
    assert_eq!(process.ask("own").unwrap(), "None");
    assert!(ProcessContext::of(process.pid()).unwrap().is_none());
    assert_eq!(process.ask("publish shop").unwrap(), "done");
    let first = ProcessContext::of(process.pid()).unwrap().unwrap();
    assert_eq!(
        (first.get("service.name"), first.get("service.version")),
        (Some("shop"), Some("1"))
    );
    assert_eq!(process.ask("theirs read").unwrap(), "service.name=shop,service.version=1");
    // Again, longer and shorter.
    for name in ["s".repeat(4000), "b".to_owned()] {
        assert_eq!(process.ask(&format!("publish {name}")).unwrap(), "done");
        let next = ProcessContext::of(process.pid()).unwrap().unwrap();
        assert_eq!(next.get("service.name"), Some(&*name));
        assert!(next.published_ns > first.published_ns);
        assert_eq!(
            process.ask("theirs read").unwrap(),
            format!("service.name={name},service.version=1")
        );
    }
    let long = process.ask(&format!("publish {}", "x".repeat(PROCESS_CONTEXT_MOST))).unwrap();
    assert!(long.starts_with("a process context has 1 to"), "{long}");
    assert_eq!(ProcessContext::of(process.pid()).unwrap().unwrap().get("service.name"), Some("b"));
    // A forked child has none of its parent's, and may have its own; the parent's stays.
    let forked = process.ask("fork").unwrap();
    assert!(forked.contains("Exited") && forked.ends_with(", 0)"), "{forked}");
    assert_eq!(ProcessContext::of(process.pid()).unwrap().unwrap().get("service.name"), Some("b"));

    // Theirs, read by us.
    let mut other = start();
    assert_eq!(other.ask("theirs").unwrap(), "true");
    let context = ProcessContext::of(other.pid()).unwrap().unwrap();
    let pairs: Vec<_> =
        context.attributes.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(pairs, [("service.name", "theirs"), ("process.pid", "-7"), ("sampled", "true")]);
    assert!(other.ask("own").unwrap().contains("theirs"));

    let pid = other.pid();
    drop(other);
    assert!(matches!(ProcessContext::of(pid), Err(ContextError::NoProcess { .. })));
    // Pid 2 is a kernel thread, or not there, or of somebody else: never a panic.
    let _ = ProcessContext::of(2);
}
