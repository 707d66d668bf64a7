//! Text output of values, and conditions on them.

use perfring_abi::RecordType;
use perfring_types::read::{Condition, Op, Type, Value};
use perfring_types::tagged::TaggedWriter;

fn parse(text: &str) -> Type {
    Type::parse(RecordType::new(5000).unwrap(), text).unwrap()
}

fn word(text: &str) -> String {
    Value::Str(text.to_owned()).to_string()
}

#[test]
fn text_is_quoted_only_where_a_reader_or_a_terminal_needs_it() {
    for plain in ["plain", "it's", "a=b", "日本", "{x}", "/a/b.rs:7", "é"] {
        assert_eq!(word(plain), plain);
    }
    for (text, shown) in [
        ("", r#""""#),
        ("two words", r#""two words""#),
        ("say \"so\"", r#""say \"so\"""#),
        ("back\\slash", r#""back\\slash""#),
        ("\u{1b}[31mred", r#""\u{1b}[31mred""#),
        ("line\nline", r#""line\nline""#),
        ("\u{202e}txt", r#""\u{202e}txt""#),
        ("\u{9b}", r#""\u{9b}""#),
        ("no\u{a0}break", "\"no\u{a0}break\""),
    ] {
        assert_eq!(word(text).replace("\\u{a0}", "\u{a0}"), shown);
    }
}

#[test]
fn tagged_records_are_shown_in_the_types_order_with_units_and_labels() {
    let kind = parse(
        r#"{"name":"app.request","encoding":"tagged","fields":[
            {"name":"body","constant":"request done"},
            {"name":"severity","kind":"enum","of":{"kind":"any"},
             "labels":[{"value":17,"name":"ERROR"},{"value":9,"name":"INFO"}]},
            {"name":"took","kind":"any","unit":"ms"},
            {"name":"ratio","kind":"any","unit":"1"},
            {"name":"missing","kind":"any"}]}"#,
    );
    let mut payload = Vec::new();
    let mut writer = TaggedWriter::new(&mut payload);
    writer.f64("extra key", 1e300);
    writer.u64(2, 12);
    writer.u64(1, 17);
    writer.f64(3, 0.5);
    writer.none("extra");
    writer.u64(2, 13);
    writer.text("body", "again");
    let value = kind.decode(&payload).unwrap();
    assert_eq!(
        kind.render_text(&value),
        "body=[\"request done\" again] severity=ERROR took=[12 13] ms ratio=0.5 \
         \"extra key\"=1e300 extra=null"
    );
    assert_eq!(value.to_string().matches(" ms").count(), 0);
    assert_eq!(kind.field("took").unwrap().unit, "ms");

    let holds = |text: &str| kind.matches(&value, &Condition::parse(text).unwrap());
    for yes in [
        "severity=ERROR",
        "severity>=info",
        "severity>INFO",
        "severity=17",
        "severity!=INFO",
        "severity~ERR",
        "severity<18",
        "took=13",
        "took.1=13",
        "body~done",
        "extra=null",
        "extra key>1e299",
    ] {
        assert!(holds(yes), "{yes}");
    }
    for no in [
        "severity<INFO",
        "severity=WARN",
        "severity>WARN",
        "missing=1",
        "missing!=1",
        "took=14",
        "took.2=13",
        "took!=12",
        "body~nothing",
        "extra=0",
    ] {
        assert!(!holds(no), "{no}");
    }
}

#[test]
fn labels_are_ordered_by_their_values_wherever_they_stand() {
    let kind = parse(
        r#"{"name":"t.T","encoding":"pod","size":3,"fields":[{"name":"s","kind":"struct","size":3,
            "fields":[{"name":"a.b","kind":"array","count":3,"of":{"kind":"enum","of":{"kind":"u8"},
            "labels":[{"value":1,"name":"z"},{"value":2,"name":"a"}]}}]}]}"#,
    );
    let value = kind.decode(&[1, 2, 3]).unwrap();
    assert_eq!(kind.render_text(&value), "s={a.b=[z a 3]}");
    let holds = |text: &str| kind.matches(&value, &Condition::parse(text).unwrap());
    assert!(holds("s.a.b.0<a") && holds("s.a.b.1>z") && holds("s.a.b.2>2") && !holds("s.a.b.0>a"));
    // One element of a list is enough; with != all count.
    assert!(holds("s.a.b>=A") && holds("s.a.b<a") && holds("s.a.b = z") && !holds("s.a.b!=z"));
    let value = kind.decode(&[1, 1, 1]).unwrap();
    let holds = |text: &str| kind.matches(&value, &Condition::parse(text).unwrap());
    assert!(!holds("s.a.b>=a") && holds("s.a.b<a") && holds("s.a.b != a") && !holds("s.a.b>z"));
}

#[test]
fn every_kind_is_compared_by_its_own_rules() {
    let u = Value::U64;
    for (value, op, text, holds) in [
        (u(10), Op::Gt, "9", true), // not as text
        (u(10), Op::Eq, "10.0", true),
        (u(u64::MAX), Op::Lt, "18446744073709551616", true),
        (u(u64::MAX), Op::Eq, "18446744073709551615", true),
        (u(u64::MAX - 1), Op::Eq, "18446744073709551615", false),
        (u(1), Op::Gt, "-1", true),
        (u(1), Op::Eq, "one", false),
        (u(1), Op::Ne, "one", true),
        (u(1), Op::Lt, "one", false),
        (u(120), Op::Contains, "2", true),
        (Value::I64(-10), Op::Lt, "-9", true),
        (Value::I64(-10), Op::Ge, "-0xa", true),
        (Value::I64(0), Op::Eq, "-0", true),
        (Value::I128(i128::MIN), Op::Lt, "0", true),
        (Value::U128(u128::MAX), Op::Eq, "340282366920938463463374607431768211455", true),
        (Value::F64(0.1), Op::Eq, "0.1", true),
        (Value::F32(0.1), Op::Eq, "0.1", true),
        (Value::F64(f64::NAN), Op::Eq, "NaN", true),
        (Value::F64(f64::NAN), Op::Lt, "1", false),
        (Value::F64(f64::INFINITY), Op::Gt, "1e308", true),
        (Value::Bool(true), Op::Eq, "true", true),
        (Value::Bool(true), Op::Eq, "0", false),
        (Value::Char('x'), Op::Eq, "x", true),
        (Value::Str("b".into()), Op::Gt, "a", true),
        (Value::Str(" b".into()), Op::Eq, " b", true),
        (Value::Bytes(vec![0xab, 0xcd]), Op::Eq, "ABCD", true),
        (Value::Bytes(vec![0xab, 0xcd]), Op::Contains, "bc", true),
        (Value::Null, Op::Eq, "null", true),
        (Value::Null, Op::Ne, "0", true),
        (Value::List(vec![u(1), u(2)]), Op::Eq, "2", true),
        (Value::List(vec![u(1), u(2)]), Op::Ne, "2", false),
        (Value::Struct(vec![("a".into(), u(7))]), Op::Eq, "7", false),
        (Value::Struct(vec![("a".into(), u(7))]), Op::Contains, "7", true),
    ] {
        assert_eq!(value.matches(op, text), holds, "{value} {op:?} {text}");
    }
}

#[test]
fn conditions_are_read_up_to_their_first_operator() {
    let read = |text: &str| Condition::parse(text).map(|c| (c.path, c.op, c.text)).unwrap();
    assert_eq!(read("a.b = c=d"), ("a.b".into(), Op::Eq, "c=d".into()));
    assert_eq!(read("url~?x=1"), ("url".into(), Op::Contains, "?x=1".into()));
    assert_eq!(read("n!=-1"), ("n".into(), Op::Ne, "-1".into()));
    assert_eq!(read("n=="), ("n".into(), Op::Eq, String::new()));
    assert_eq!(read("text~ >x"), ("text".into(), Op::Contains, ">x".into()));
    assert_eq!(read("severity_number<=17"), ("severity_number".into(), Op::Le, "17".into()));
    for (bad, says) in [
        ("", "write FIELD=VALUE"),
        ("n", "write FIELD=VALUE"),
        ("=1", "write FIELD=VALUE"),
        (" <2", "write FIELD=VALUE"),
        ("n!1", "write FIELD=VALUE"),
        ("n >> 3", ">> is no operator"),
        ("n=>3", "=> is no operator"),
        ("n=~x", "=~ is no operator"),
        ("n!<3", "!< is no operator"),
        ("n===3", "=== is no operator"),
        ("n <> 3", "<> is no operator"),
        ("n>=", "no value after >="),
        ("severity_number>=foo", "\"foo\" is no number, and \"severity_number\" is one: 1 to 24"),
        ("severity_number!=foo", "is no number"),
        (
            "severity_number>3 && body~x",
            "\"3 && body~x\" is no number, and \"severity_number\" is one: 1 to 24; a condition has one field: repeat --where",
        ),
        ("severity_number>3 and body~x", "a condition has one field"),
        ("severity_number>24", "no record has \"severity_number\" > 24: it is 1 to 24"),
        ("severity_number=0", "it is 1 to 24"),
        ("severity_number<1", "it is 1 to 24"),
        ("time_unix_nano=yesterday", "is no number"),
    ] {
        let error = Condition::parse(bad).unwrap_err().to_string();
        assert!(error.contains(says), "{bad}: {error}");
    }
}

#[test]
fn conditions_that_no_record_of_a_type_can_meet_are_found() {
    let kind = parse(
        r#"{"name":"t.T","encoding":"pod","size":64,"fields":[
            {"name":"u","kind":"u8"},
            {"name":"i","at":8,"kind":"i64"},
            {"name":"f","at":16,"kind":"f64"},
            {"name":"ok","at":24,"kind":"bool"},
            {"name":"id","at":32,"kind":"bytes","size":8},
            {"name":"text","at":40,"kind":"text","size":8},
            {"name":"side","at":48,"kind":"enum","of":{"kind":"u8"},"labels":[{"value":1,"name":"buy"},{"value":2,"name":"sell"}]},
            {"name":"pos","at":56,"kind":"struct","size":4,"fields":[{"name":"x","kind":"f32"}]},
            {"name":"all","at":60,"kind":"array","count":4,"size":4,"of":{"kind":"u8"}}]}"#,
    );
    let check = |text: &str| Condition::parse(text).unwrap().check([&kind]);
    for good in [
        "u=255",
        "u<1",
        "u!=300",
        "u~x",
        "i<-5",
        "f>1e3",
        "f=NaN",
        "f<inf",
        "ok=true",
        "ok=1",
        "id=00ff",
        "id~0f",
        "text>=foo",
        "text=",
        "side=BUY",
        "side>=1",
        "pos.x=1.5",
        "pos~1",
        "all=7",
        "all.1=7",
    ] {
        assert_eq!(check(good), Ok(()), "{good}");
    }
    for (bad, says) in [
        ("u=foo", "\"foo\" is no number, and \"u\" is one: 0 to 255"),
        ("u!=foo", "is no number"),
        ("u>1 && f>2", "is one: 0 to 255; a condition has one field: repeat --where"),
        ("f>1 && u>2", "is one; a condition has one field"),
        ("ok=true && u>2", "as \"ok\" is; a condition has one field"),
        ("id=00ff && u>2", "like 00ff; a condition has one field"),
        ("side=buy && u>2", "it is buy, sell; a condition has one field"),
        ("u>255", "no record has \"u\" > 255: it is 0 to 255"),
        ("u<0", "it is 0 to 255"),
        ("u=300", "it is 0 to 255"),
        ("i=x", "is no number"),
        ("f>high", "\"high\" is no number"),
        ("ok=yes", "neither true nor false"),
        ("id=xyz", "is not hexadecimal"),
        ("side=hold", "\"hold\" is no value of \"side\": it is buy, sell"),
        ("pos=1", "name one, as pos.x"),
        ("pos.x=a", "is no number"),
        ("all>=256", "it is 0 to 255"),
        ("all.1=a", "is no number"),
    ] {
        let error = check(bad).unwrap_err();
        assert!(error.to_string().contains(says) && !error.is_unknown_field(), "{bad}: {error}");
    }
    assert!(check("nosuch=1").unwrap_err().is_unknown_field());
    // Without types, or beside a type that may have any field, it can hold.
    let tagged =
        parse(r#"{"name":"t.L","encoding":"tagged","fields":[{"name":"body","kind":"any"}]}"#);
    let bad = Condition::parse("u=foo").unwrap();
    assert_eq!((bad.check([]), bad.check([&kind, &tagged])), (Ok(()), Ok(())));
}

#[test]
fn fixed_size_text_truncated_within_a_character_is_still_shown() {
    let kind = parse(
        r#"{"name":"t.T","encoding":"pod","size":4,"fields":[{"name":"n","kind":"text","size":4}]}"#,
    );
    assert_eq!(
        kind.render_text(
            &kind.decode("abcé".get(..).unwrap().as_bytes().get(..4).unwrap()).unwrap()
        ),
        "n=abc\u{fffd}"
    );
    assert_eq!(kind.render_text(&kind.decode(b"ab\0\0").unwrap()), "n=ab");
}

#[test]
fn json_and_text_payloads_keep_their_order_and_are_refused_if_invalid() {
    let json = parse(r#"{"name":"t.J","encoding":"json"}"#);
    let value =
        json.decode(br#"{"z":1,"a":[true,null,-0.5,"x y"],"n":{"k":18446744073709551615}}"#);
    let value = value.unwrap();
    assert_eq!(
        json.render_text(&value),
        r#"z=1 a=[true null -0.5 "x y"] n={k=18446744073709551615}"#
    );
    assert!(
        json.decode(b"{")
            .unwrap_err()
            .to_string()
            .starts_with("the record is not a valid \"t.J\": it is not JSON")
    );
    let text = parse(r#"{"name":"t.U","encoding":"utf-8"}"#);
    assert_eq!(text.decode("grüße".as_bytes()).unwrap(), Value::Str("grüße".into()));
    assert!(text.decode(&[0xff]).unwrap_err().to_string().contains("it is not UTF-8"));
}
