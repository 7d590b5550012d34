use super::*;
use crate::error::{Error, ErrorKind};
use crate::values::budget::Budget;
use proptest::prelude::*;

fn read(pickle: &[u8]) -> Result<String, Error> {
    let loaded = load(pickle, Some(0), &mut Budget::new(pickle.len() as u64)).map_err(|failure| match failure {
        Failure::Failed(error) => error,
        Failure::Ended => Error::new(ErrorKind::Truncated, "ended"),
    })?;
    Ok(shown(&loaded.graph, loaded.root, 0))
}

/// A value as text, about as Python writes it.
fn shown(graph: &Graph, value: Value, depth: usize) -> String {
    let all =
        |values: &[Value]| values.iter().map(|value| shown(graph, *value, depth + 1)).collect::<Vec<_>>().join(", ");
    let pairs =
        |entries: &[[Value; 2]]| entries.iter().map(|[key, value]| all(&[*key, *value])).collect::<Vec<_>>().join("; ");
    match (value, graph.node(value)) {
        _ if depth > 5 => "…".to_owned(),
        (Value::Text(span), _) => format!("'{}'", graph.text(span).unwrap_or("?")),
        (_, Some(Node::Tuple(items))) => format!("({})", all(items)),
        (_, Some(Node::List(items))) => format!("[{}]", all(items)),
        (_, Some(Node::Dict(entries))) => format!("{{{}}}", pairs(entries)),
        (_, Some(Node::Persistent(id))) => format!("<{}>", all(&[*id])),
        (_, Some(Node::Global { .. })) => graph.global(value).map(|(module, name)| format!("{module}.{name}")).unwrap(),
        (_, Some(Node::Object(object))) => {
            let call = format!("{}{}", all(&[object.class]), all(&[object.arguments]));
            format!("{call}[{}]{{{}}}:{}", all(&object.items), pairs(&object.entries), all(&[object.state]))
        }
        (other, None) => format!("{other:?}"),
    }
}

/// What `pickle.dumps` of Python 3.11 writes for values of every kind.
#[test]
fn reads_what_python_writes_in_every_protocol() {
    // {'a': (1, 2.5, None, True), 'b': [-1, 70000, 'é']}
    let protocol_2 =
        b"\x80\x02}q\0(X\x01\0\0\0aq\x01(K\x01G@\x04\0\0\0\0\0\0N\x88tq\x02X\x01\0\0\0bq\x03]q\x04(J\xff\xff\
        \xff\xffJp\x11\x01\0X\x02\0\0\0\xc3\xa9q\x05eu.";
    let protocol_4 =
        b"\x80\x04\x95\x2c\0\0\0\0\0\0\0}\x94(\x8c\x01a\x94(K\x01G@\x04\0\0\0\0\0\0N\x88t\x94\x8c\x01b\x94]\
        \x94(J\xff\xff\xff\xffJp\x11\x01\0\x8c\x02\xc3\xa9\x94eu.";
    let expected = "{'a', (Int(1), Float(2.5), None, Bool(true)); 'b', [Int(-1), Int(70000), 'é']}";
    for pickle in [&protocol_2[..], protocol_4] {
        assert_eq!(read(pickle).unwrap(), expected);
    }
}

#[test]
fn calls_are_recorded_and_not_made() {
    let system = b"\x80\x02cos\nsystem\nq\0X\x04\0\0\0exitq\x01\x85q\x02Rq\x03.";
    assert_eq!(read(system).unwrap(), "os.system('exit')[]{}:None");
    let by_stack = b"\x80\x04\x8c\x02os\x8c\x06system\x93)\x81}b.";
    assert_eq!(read(by_stack).unwrap(), "os.system()[]{}:{}");
    let ordered = b"\x80\x02ccollections\nOrderedDict\n)RX\x01\0\0\0aK\x01s.";
    assert_eq!(read(ordered).unwrap(), "collections.OrderedDict()[]{'a', Int(1)}:None");
    let appended = b"\x80\x02cm\nL\n)\x81K\x01a(K\x02K\x03e.";
    assert_eq!(read(appended).unwrap(), "m.L()[Int(1), Int(2), Int(3)]{}:None");
    assert_eq!(read(b"\x80\x02X\x01\0\0\0kQ.").unwrap(), "<'k'>");
}

#[test]
fn integers_of_any_length_are_read() {
    for (pickle, expected) in [
        (&b"\x8a\0."[..], "Int(0)"),
        (b"\x8a\x01\xff.", "Int(-1)"),
        (b"\x8a\x08\0\0\0\0\0\0\0\x80.", "Int(-9223372036854775808)"),
        (b"\x8a\x09\0\0\0\0\0\0\0\0\x01.", "BigInt"),
        (b"M\x01\x02.", "Int(513)"),
    ] {
        assert_eq!(read(pickle).unwrap(), expected);
    }
}

#[test]
fn a_list_may_contain_itself() {
    assert_eq!(read(b"\x80\x02]q\0h\0a.").unwrap(), "[[[[[[…]]]]]]");
}

#[test]
fn refuses_invalid_pickles() {
    for (pickle, kind, what) in [
        (&b"\x80\x06."[..], ErrorKind::Unsupported, "protocol 6"),
        (b"I1\n.", ErrorKind::Unsupported, "protocol 0 or 1"),
        (b".", ErrorKind::Format, "empty stack"),
        (b"(.", ErrorKind::Format, "empty stack"),
        (b"K\x01(.", ErrorKind::Format, "empty stack"),
        (b"t.", ErrorKind::Format, "mark"),
        (b"h\x05.", ErrorKind::Format, "entry 5 of its memo"),
        (b"Nr\xff\xff\xff\xff.", ErrorKind::Format, "no 4294967295 entries"),
        (b"NK\x01a.", ErrorKind::Format, "cannot change"),
        (b")K\x01a.", ErrorKind::Format, "no list"),
        (b"](K\x01u.", ErrorKind::Format, "without a value"),
        (b"](K\x01K\x02u.", ErrorKind::Format, "no dictionary"),
        (b"K\x01K\x02\x93.", ErrorKind::Format, "other values than texts"),
        (b"\xff.", ErrorKind::Format, "0xff is not one"),
        (b"X\xff\xff\xff\xffa.", ErrorKind::Truncated, "ended"),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffa.", ErrorKind::Truncated, "ended"),
        (b"cos\n", ErrorKind::Truncated, "ended"),
    ] {
        let error = read(pickle).unwrap_err();
        assert!(error.kind == kind && error.what.contains(what), "{pickle:?}: {error}");
    }
}

/// A pickle whose opcodes take one byte each.
#[test]
fn memory_is_bounded_by_the_budget() {
    for bomb in [vec![b']'; 4 << 20], [vec![b'('; 4 << 20], vec![b'N'; 4]].concat(), b"Nq\0h\0".repeat(2 << 20)] {
        let error = read(&[&bomb[..], b"."].concat()).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Limit | ErrorKind::Format), "{error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_cause_no_panic(
        opcodes in proptest::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(b"()]}.tuesabqhNK\x85\x86\x87\x81R\x88Q".to_vec())], 0..80,
        ),
    ) {
        _ = read(&opcodes);
        _ = read(&[&opcodes[..], b"."].concat());
    }
}
