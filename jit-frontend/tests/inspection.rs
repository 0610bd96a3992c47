//! What a program can see of what it made the engine do.

use jit_frontend::{
    self as jit, Array, CacheOutcome, Device, DeviceKind, Kernel, KernelHistory, Loop, Stream,
};

use crate::support::{array, fresh, on_each};

/// A parser of JSON, as far as a timeline needs it: brackets that match, outside of strings.
fn is_balanced(text: &str) -> bool {
    let (mut open, mut in_string, mut escaped) = (Vec::new(), false, false);
    for c in text.chars() {
        if in_string {
            (in_string, escaped) = (escaped || c != '"', !escaped && c == '\\');
            continue;
        }
        match c {
            '"' => in_string = true,
            '[' | '{' => open.push(c),
            ']' if open.pop() != Some('[') => return false,
            '}' if open.pop() != Some('{') => return false,
            _ => {}
        }
    }
    open.is_empty() && !in_string
}

fn timeline(history: &KernelHistory) -> String {
    let mut out = Vec::new();
    history.chrome_trace(&mut out).expect("memory takes it all");
    let text = String::from_utf8(out).expect("text");
    assert!(is_balanced(&text), "{text}");
    text
}

#[test]
fn the_last_kernel_is_what_was_launched_last() {
    on_each(|dev| {
        let dev = Device::builder(dev.kind()).build().expect("as the shared one");
        assert!(dev.last_kernel().is_none());
        let x = Array::from_slice(&[1.0f32, 2.0, 3.0], &dev).expect("memory");
        jit::sync(&(&x + 1.0)).expect("it runs");
        jit::sync(&(&x * &x).sqrt()).expect("it runs");
        let kernel: Kernel = dev.last_kernel().expect("two were launched");
        let text = kernel.program().to_string();
        assert!(text.contains("= sqrt") && text.contains("= mul") && !text.contains("= add"), "{text}");
        assert_eq!(kernel.ptx(), None);
        let compiled = dev.kind() == DeviceKind::Cpu;
        assert_eq!(kernel.llvm_ir().is_some_and(|ir| ir.contains("@llvm.sqrt")), compiled);
        assert_eq!(kernel.asm().is_some_and(|asm| asm.contains("body")), compiled);
    });
}

#[test]
fn a_history_says_what_hit_and_when_it_ran() {
    on_each(|dev| {
        let dev =
            Device::builder(dev.kind()).profile(true).disk_cache(None).build().expect("as the shared one");
        let x = Array::from_slice(&[1.0f32; 1000], &dev).expect("memory");
        let stream = Stream::new(&dev).expect("a stream");
        jit::sync(&(&x + &x)).expect("it runs");
        let y = &x * &x;
        stream.eval(&y).expect("it is launched");
        stream.sync().expect("it ran");
        let z = &y * &y;
        jit::sync(&z).expect("it runs");
        let history = dev.kernel_history();
        let outcomes: Vec<bool> = history.iter().map(|k| k.cache == CacheOutcome::Hit).collect();
        assert_eq!(outcomes, [false, false, true], "{history:?}");
        let streams: Vec<u32> = history.iter().map(|k| k.stream).collect();
        assert_eq!((streams[0], streams[2]), (0, 0));
        assert_ne!(streams[1], 0);
        for kernel in &history {
            let (begin, _) = kernel.run_time().expect("it ran");
            assert!(begin >= kernel.compile_time, "it ran before it was there: {kernel:?}");
        }
        let text = timeline(&history);
        assert_eq!(text.matches("\"ph\":\"X\"").count(), 3 + 2, "three ran, two were compiled: {text}");
        assert_eq!(text.matches("thread_name").count(), 3);
        assert!(text.contains("\"lanes\":1000"));
    });
}

#[test]
fn without_a_profile_a_timeline_has_submissions() {
    let dev = fresh();
    assert_eq!(timeline(&dev.kernel_history()).matches("\"ph\"").count(), 1);
    let x = Array::from_slice(&[1u8; 10], &dev).expect("memory");
    jit::sync(&(&x + &x)).expect("it runs");
    let history = dev.kernel_history();
    assert_eq!(history[0].run_time(), None);
    let text = timeline(&history);
    assert_eq!((text.matches("\"ph\":\"i\"").count(), text.matches("\"ph\":\"X\"").count()), (1, 1));
}

#[test]
fn a_trace_has_a_picture() {
    let dev = fresh();
    let x = Array::from_slice(&[1.0f32, 2.0], &dev).expect("memory").label("a \"quoted\" name");
    let looped =
        Loop::new((x.clone(), Array::<u32>::from(0))).run(|(_, k)| k.lt(3), |(x, k)| (x.sqrt(), k + 1)).0;
    let y = (&x + &looped).label("sum");
    let dot = jit::graphviz(&y).expect("one device");
    assert!(dot.starts_with("digraph trace {") && dot.ends_with("}\n"));
    for part in
        ["data\\nf32[2]\\na \\\"quoted\\\" name", "add\\nf32[2]\\nsum", "label=\"loop\"", "sqrt\\n", "root 0"]
    {
        assert!(dot.contains(part), "{part} in {dot}");
    }
    // What is inside of the loop's frame stands between its brackets.
    let frame = &dot[dot.find("subgraph").expect("a frame")..];
    let frame = &frame[..frame.find("\n  }").expect("its end")];
    assert!(frame.contains("sqrt") && !frame.contains("add\\nf32[2]\\nsum"), "{dot}");
    assert_eq!(dev.kernel_history().len(), 0, "nothing was computed");
    jit::sync(&y).expect("it runs");
    assert!(jit::graphviz(&y).expect("one device").contains("data\\nf32[2]\\nsum"));
}

#[test]
fn pictures_of_literals_and_of_two_devices() {
    assert_eq!(jit::graphviz(&Array::<f32>::from(1.0)).expect("no device"), "digraph trace {\n}\n");
    let both = (array(&[1.0f32]), Array::from_slice(&[1.0f32], &fresh()).expect("memory"));
    assert!(jit::graphviz(&both).is_err());
}
