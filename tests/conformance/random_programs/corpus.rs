//! Programs on which devices once disagreed, and such as have what is rare.

use std::path::Path;

use super::{compare_run, runs, text};

#[test]
fn the_corpus_means_the_same_on_all_devices() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let entries = std::fs::read_dir(&folder).expect("the corpus");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "nothing in {}", folder.display());
    for file in files {
        let name = file.display();
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let program = text::read(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        for run in 0..runs().len() {
            compare_run(&program, run).unwrap_or_else(|e| panic!("{name}: {e}\n{program}"));
        }
    }
}
