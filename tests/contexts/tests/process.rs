//! A process's context: published here and read by another library's reader, the reverse, and across processes.

use libdd_library_config::otel_process_ctx as theirs;
use libdd_trace_protobuf::opentelemetry::proto::common::v1 as common;
use libdd_trace_protobuf::opentelemetry::proto::resource::v1::Resource;
use perfring_context::{ContextError, PROCESS_CONTEXT_MOST, ProcessContext, Value, publish};
use perfring_context_tests::{Answering, answer, role};
use perfring_shm::publish_process_context;

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
    let text = |text: &str| Value::StringValue(text.to_owned());
    let list = |values: Vec<Value>| {
        let values = values.into_iter().map(|of| value(of).unwrap()).collect();
        Value::ArrayValue(common::ArrayValue { values })
    };
    let attributes = vec![
        pair("service.name", Value::StringValue("theirs".to_owned())),
        pair("process.pid", Value::IntValue(-7)),
        pair("sampled", Value::BoolValue(true)),
        pair("none", Value::ArrayValue(common::ArrayValue::default())),
        pair("load", Value::DoubleValue(0.5)),
        pair("raw", Value::BytesValue(vec![0, 255])),
        pair("hosts", list(vec![text("a"), Value::IntValue(2), list(vec![text("b")])])),
        pair(
            "owner",
            Value::KvlistValue(common::KeyValueList {
                values: vec![pair("team", text("store")), pair("pagers", list(vec![text("x")]))],
            }),
        ),
        common::KeyValue { key: "unset".to_owned(), ..Default::default() },
    ];
    common::ProcessContext {
        resource: Some(Resource { attributes, ..Resource::default() }),
        extra_attributes: vec![
            pair("threadlocal.schema_version", text("tls_v1")),
            pair("threadlocal.attribute_key_map", list(vec![text("http_route"), text("user")])),
        ],
    }
}

/// Returns the attributes that their reader finds in this process, as `name=value` for texts.
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
        // Any bytes: the result of reading them.
        Some(("raw", hex)) => {
            let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
            publish_process_context(&bytes).unwrap();
            match ProcessContext::own() {
                Ok(own) => format!("{:?}", own.unwrap().attributes),
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
    // This program exports the variable of thread contexts, and its context says this to profilers.
    let schema = ("threadlocal.schema_version".to_owned(), Value::Str("tlsdesc_v1_dev".to_owned()));
    let names = ("threadlocal.attribute_key_map".to_owned(), Value::List(Vec::new()));
    assert_eq!(first.extra, [schema, names]);
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
    // A forked child does not have its parent's context, and may have its own; the parent's context stays.
    let forked = process.ask("fork").unwrap();
    assert!(forked.contains("Exited") && forked.ends_with(", 0)"), "{forked}");
    assert_eq!(ProcessContext::of(process.pid()).unwrap().unwrap().get("service.name"), Some("b"));

    // Theirs, read by us.
    let mut other = start();
    assert_eq!(other.ask("theirs").unwrap(), "true");
    let context = ProcessContext::of(other.pid()).unwrap().unwrap();
    let s = |text: &str| Value::Str(text.to_owned());
    let pair = |name: &str, value| (name.to_owned(), value);
    let wanted = [
        pair("service.name", s("theirs")),
        pair("process.pid", Value::I64(-7)),
        pair("sampled", Value::Bool(true)),
        pair("none", Value::List(Vec::new())),
        pair("load", Value::F64(0.5)),
        pair("raw", Value::Bytes(vec![0, 255])),
        pair("hosts", Value::List(vec![s("a"), Value::I64(2), Value::List(vec![s("b")])])),
        pair(
            "owner",
            Value::Struct(vec![
                ("team".into(), s("store")),
                ("pagers".into(), Value::List(vec![s("x")])),
            ]),
        ),
        pair("unset", Value::Null),
    ];
    assert_eq!(context.attributes, wanted);
    assert_eq!((context.get("service.name"), context.get("hosts")), (Some("theirs"), None));
    let names = Value::List(vec![s("http_route"), s("user")]);
    let wanted = [
        pair("threadlocal.schema_version", s("tls_v1")),
        pair("threadlocal.attribute_key_map", names),
    ];
    assert_eq!(context.extra, wanted);
    assert!(other.ask("own").unwrap().contains("theirs"));

    let pid = other.pid();
    drop(other);
    assert!(matches!(ProcessContext::of(pid), Err(ContextError::NoProcess { .. })));
    // Pid 2 is a kernel thread, or not there, or of somebody else: never a panic.
    let _ = ProcessContext::of(2);
}

/// A field of a message: its number with the wire type for bytes, their length, and they.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut to = vec![number << 3 | 2];
    let mut len = bytes.len();
    while len > 0x7f {
        to.push(len as u8 | 0x80);
        len >>= 7;
    }
    to.push(len as u8);
    [to, bytes.to_vec()].concat()
}

/// A context with one attribute, of this field of `ProcessContext`: 1 the resource's, 2 an extra one.
fn context_of(which: u8, any_value: &[u8]) -> Vec<u8> {
    let pair = [field(1, b"name"), field(2, any_value)].concat();
    if which == 1 { field(1, &field(1, &pair)) } else { field(2, &pair) }
}

/// An `AnyValue` of a text within so many lists, or maps.
fn nested(depth: usize, is_map: bool) -> Vec<u8> {
    (0..depth).fold(field(1, b"x"), |inner, _| {
        if is_map {
            field(6, &field(1, &[field(1, b"k"), field(2, &inner)].concat()))
        } else {
            field(5, &field(1, &inner))
        }
    })
}

#[test]
fn a_hostile_context_is_refused_or_read_in_bounds() {
    if role().is_some() {
        return child();
    }
    let test = "process::a_hostile_context_is_refused_or_read_in_bounds";
    let mut process = Answering::start(test, "child").unwrap();
    let pid = process.pid();
    let (mut read, mut refused) = (0, 0);
    let mut ask = |payload: &[u8], wanted: Option<&str>| {
        let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
        let own = process.ask(&format!("raw {hex}")).unwrap();
        let outside = match ProcessContext::of(pid) {
            Ok(context) => format!("{:?}", context.unwrap().attributes),
            Err(error) => error.to_string(),
        };
        assert_eq!(own, outside);
        match wanted {
            Some(wanted) => assert!(own.contains(wanted), "{own:.200} {wanted}"),
            None => {
                assert!(own.contains("cannot be read: its payload is no protobuf"), "{own:.200}")
            }
        }
        *(if wanted.is_some() { &mut read } else { &mut refused }) += 1;
    };
    for which in [1, 2] {
        for is_map in [false, true] {
            // As deep as a value may be in practice, and far deeper; both fit the payload.
            ask(&context_of(which, &nested(20, is_map)), Some(if which == 1 { "x" } else { "[]" }));
            ask(&context_of(which, &nested(1000, is_map)), None);
        }
        let whole = context_of(which, &nested(3, true));
        (1..whole.len()).for_each(|len| ask(&whole[..len], None)); // cut off anywhere
    }
    // Fields with another wire type than theirs: a number, eight bytes, four bytes, groups, and none that exists.
    for number in [1u8, 2, 5, 6, 7] {
        for wire in [0u8, 1, 3, 4, 5, 6, 7] {
            let value = [vec![number << 3 | wire], vec![1; 9]].concat();
            ask(&context_of(1, &value), None);
        }
    }
    ask(&context_of(1, &[3 << 3 | 2, 1, 0]), None); // a number that is a text
    ask(&[1 << 3, 1], None); // the resource is a number
    // Lengths beyond the end, and beyond any memory.
    for len in [&[2][..], &[0x7f], &[0xff, 0xff, 3], &[0xff; 9], &[0xff, 0xff, 0xff, 0xff, 0xf]] {
        ask(&[&[1 << 3 | 2], len, b"x"].concat(), None);
        ask(&context_of(1, &[&[5 << 3 | 2], len, b"x"].concat()), None);
    }
    ask(&context_of(1, &field(1, &[0xff, 0xfe])), None); // not UTF-8
    // The most memory: as many values as fit, of two bytes each.
    let many = field(1, &[]).repeat(7000);
    ask(&context_of(1, &field(5, &many)), Some("[Null, Null, "));
    ask(&context_of(1, &field(6, &many)), Some("Null"));
    // Names twice, and fields of a later version.
    let twice = [context_of(1, &field(1, b"a")), context_of(1, &field(1, b"b"))].concat();
    ask(&twice, Some(r#"[("name", Str("a")), ("name", Str("b"))]"#));
    let later = [field(9, b"later"), context_of(1, &field(9, b"x"))].concat();
    ask(&later, Some(r#"[("name", Null)]"#));
    println!("{read} contexts were read, {refused} refused");
    assert!(read >= 8 && refused > 120);
}
