use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use tempfile::TempDir;

use super::*;

const KEY: Key = [7; 32];

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn opened(directory: &Path, bytes: u64) -> DiskCache {
    let options = DiskCacheOptions { directory: directory.to_owned(), bytes };
    DiskCache::open(&options).expect("the directory serves")
}

fn key(number: u8) -> Key {
    [number; 32]
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|e| e.expect("an entry").file_name().into_string().expect("a name")).collect()
}

#[test]
fn what_is_stored_is_found_by_its_key_alone() {
    let directory = directory();
    let cache = opened(directory.path(), 1 << 20);
    assert_eq!(cache.get(&KEY), None);
    cache.put(&KEY, &[b"one ", b"", b"kernel"]);
    cache.put(&key(8), &[]);
    assert_eq!(cache.get(&KEY).as_deref(), Some(&b"one kernel"[..]));
    assert_eq!(cache.get(&key(8)).as_deref(), Some(&b""[..]));
    assert_eq!(cache.get(&key(9)), None);
    cache.put(&KEY, &[b"another"]);
    assert_eq!(opened(directory.path(), 1 << 20).get(&KEY).as_deref(), Some(&b"another"[..]));
    assert_eq!(names(directory.path()).len(), 2, "no temporary files are left");
}

#[test]
fn a_damaged_file_is_a_miss_and_is_replaced() {
    let directory = directory();
    let cache = opened(directory.path(), 1 << 20);
    let path = directory.path().join(file_name(&KEY));
    let payload = b"some code, long enough to have a middle";
    cache.put(&KEY, &[payload]);
    let whole = fs::read(&path).expect("the file");
    let is_missed = |bytes: &[u8], how: &str| {
        fs::write(&path, bytes).expect("the file can be changed");
        assert_eq!(cache.get(&KEY), None, "{how}");
        cache.put(&KEY, &[payload]);
        assert_eq!(cache.get(&KEY).as_deref(), Some(&payload[..]), "after {how}");
    };
    (0..whole.len()).for_each(|len| is_missed(&whole[..len], &format!("cut to {len} bytes")));
    for at in 0..whole.len() {
        for bit in [1, 0x80] {
            let mut bytes = whole.clone();
            bytes[at] ^= bit;
            is_missed(&bytes, &format!("byte {at} changed by {bit:#x}"));
        }
    }
    is_missed(&[&*whole, b"x"].concat(), "one byte too many");
    is_missed(b"#!/bin/sh\n", "a foreign file");
    // A file with a length that no memory has, and hardly a byte on the disk.
    fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|f| f.set_len(1 << 42))
        .expect("a file may be sparse");
    assert_eq!(cache.get(&KEY), None);
    cache.put(&KEY, &[payload]);
    // A whole file under another key's name: what somebody copied.
    fs::copy(&path, directory.path().join(file_name(&key(1)))).expect("a copy");
    assert_eq!(cache.get(&key(1)), None);
    // Something that is no file at all.
    fs::remove_file(&path).expect("the file");
    fs::create_dir(&path).expect("a directory");
    assert_eq!(cache.get(&KEY), None);
    assert_eq!(cache.take_trouble(), None);
    cache.put(&KEY, &[payload]);
    assert!(cache.take_trouble().is_some_and(|t| t.contains("cannot be stored")));
}

#[test]
fn a_link_is_not_followed() {
    let (directory, elsewhere) = (directory(), directory());
    opened(elsewhere.path(), 1 << 20).put(&KEY, &[b"code"]);
    let name = file_name(&KEY);
    std::os::unix::fs::symlink(elsewhere.path().join(&name), directory.path().join(&name)).expect("a link");
    assert_eq!(opened(directory.path(), 1 << 20).get(&KEY), None);
}

#[test]
fn the_least_recently_used_make_room() {
    let directory = directory();
    let one = 1000 - (HEADER + KEY.len());
    let cache = opened(directory.path(), 8000);
    let payload = vec![1; one];
    for number in 0..8 {
        cache.put(&key(number), &[&payload]);
    }
    assert!((0..8).all(|number| cache.get(&key(number)).is_some()), "8 files of 1000 bytes are allowed");
    cache.get(&key(0));
    // A file of others, and what a process left behind long ago.
    fs::write(directory.path().join("README"), [0; 100_000]).expect("a file");
    let abandoned = directory.path().join("new-0-0");
    fs::write(&abandoned, "").expect("a file");
    let long_ago = SystemTime::now() - 2 * ABANDONED;
    File::open(&abandoned).and_then(|f| f.set_modified(long_ago)).expect("the time can be set");
    cache.put(&key(8), &[&payload]);
    let left: Vec<u8> = (0..9).filter(|&number| cache.get(&key(number)).is_some()).collect();
    assert_eq!(left, [0, 4, 5, 6, 7, 8], "three quarters are left: 0 was used last, 8 is new");
    assert!(directory.path().join("README").exists() && !abandoned.exists());
    cache.put(&key(9), &[&[0; 9000]]);
    assert_eq!(cache.get(&key(9)), None, "more than everything may take");
    for number in 10..100 {
        cache.put(&key(number), &[&payload]);
        assert!(cache.get(&key(number)).is_some(), "what was stored just now stays");
        let kernels = names(directory.path()).iter().filter(|n| n.ends_with(".kernel")).count();
        assert!(kernels <= 8, "{kernels} files of 1000 bytes");
    }
}

#[test]
fn several_at_once_disturb_nobody() {
    let directory = directory();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let cache = opened(directory.path(), 20_000);
            scope.spawn(move || {
                for round in 0..200u8 {
                    let key = key(round % 25);
                    let payload = [round % 25; 1000];
                    if let Some(found) = cache.get(&key) {
                        assert_eq!(found, payload);
                    }
                    cache.put(&key, &[&payload]);
                }
                assert_eq!(cache.take_trouble(), None, "thread {thread}");
            });
        }
    });
    let total: u64 = fs::read_dir(directory.path())
        .expect("a directory")
        .map(|entry| entry.and_then(|e| e.metadata()).expect("a file").len())
        .sum();
    assert!(total <= 20_000 + 4 * 2000, "{total} bytes; each may have stored one file since it counted");
}

#[test]
fn a_directory_that_others_could_write_to_is_refused() {
    let parent = directory();
    let refused = |path: &Path| DiskCache::open(&DiskCacheOptions::new(path)).err().expect("an error");
    let own = parent.path().join("made/on/the/way");
    drop(opened(&own, 1000));
    assert_eq!(fs::metadata(&own).expect("it was made").mode() & 0o777, 0o700);
    for mode in [0o770, 0o707, 0o720, 0o702] {
        fs::set_permissions(&own, fs::Permissions::from_mode(mode)).expect("a mode");
        assert!(refused(&own).contains("others may write"), "{mode:o}");
    }
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).expect("a mode");
    drop(opened(&own, 1000));
    let file = parent.path().join("file");
    fs::write(&file, "").expect("a file");
    refused(&file);
    refused(&file.join("below"));
    // Only root can give a directory away.
    if chown(&own, Some(12345), None).is_ok() {
        assert!(refused(&own).contains("another user"));
    }
}

#[test]
fn a_store_that_fails_is_reported_once_and_harms_nothing() {
    let directory = directory();
    let path = directory.path().join("kernels");
    let cache = opened(&path, 1000);
    fs::remove_dir(&path).expect("it is empty");
    for _ in 0..3 {
        cache.put(&KEY, &[b"code"]);
        assert_eq!(cache.get(&KEY), None);
    }
    assert!(cache.take_trouble().is_some_and(|t| t.contains("cannot be stored")));
    cache.put(&KEY, &[b"code"]);
    assert_eq!(cache.take_trouble(), None);
}
