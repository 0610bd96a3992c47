//! Kernels on disk: one file for each, in a directory that several processes share.
//!
//! A file is named for its key, a blake3 hash, and holds a header, the key and the payload; the header's checksum covers
//! both. Whatever is not exactly that is a miss, and is replaced by the next store. A file is written under a
//! temporary name and renamed, so that nobody sees half of one. Nothing waits for the disk: what a crash tears is found
//! by the checksum.
//!
//! The bytes become machine code, so whoever can write them owns this process: the directory must belong to the user
//! and be writable by nobody else. It is opened once, and files are named relative to that handle, so that the
//! directory that was checked is the one that is used.
//!
//! Every failure means less caching and nothing else. The first one is reported, by whoever asks for
//! [`DiskCache::take_trouble`], since a store may happen where logging must not.

use std::fs::{DirBuilder, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, open, openat, renameat, statat, unlinkat};
use xxhash_rust::xxh3::Xxh3;

/// Where compiled kernels are kept between processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCacheOptions {
    /// The directory. It is made if missing; if it belongs to another user or others may write to it, nothing is kept.
    pub directory: PathBuf,
    /// About how many bytes the files may take in all; the least recently used go first.
    pub bytes: u64,
}

impl DiskCacheOptions {
    /// That directory, and at most 512 MiB.
    pub fn new(directory: impl Into<PathBuf>) -> DiskCacheOptions {
        DiskCacheOptions { directory: directory.into(), bytes: 512 << 20 }
    }

    /// As the environment has it: none if `JIT_CACHE` is `0`; else in `JIT_CACHE_DIR`, or `jit` in `XDG_CACHE_HOME` or in
    /// `~/.cache`, whatever is set first.
    pub fn from_env() -> Option<DiskCacheOptions> {
        let path = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        if std::env::var_os("JIT_CACHE").is_some_and(|v| v == "0") {
            return None;
        }
        let user = || path("XDG_CACHE_HOME").or_else(|| Some(path("HOME")?.join(".cache")));
        path("JIT_CACHE_DIR").or_else(|| Some(user()?.join("jit"))).map(DiskCacheOptions::new)
    }
}

/// What a kernel is found by.
pub(crate) type Key = [u8; 32];

/// An open directory of kernels.
pub(crate) struct DiskCache {
    path: PathBuf,
    directory: OwnedFd,
    bytes: u64,
    /// How many more bytes may be stored before the files are counted again.
    room: AtomicU64,
    /// Makes temporary names, with a random part since processes in containers may have equal numbers.
    process: u64,
    stores: AtomicU64,
    trouble: Mutex<Option<String>>,
    had_trouble: AtomicBool,
}

/// Ends in the version of the format.
const MAGIC: [u8; 16] = *b"jit kernel    02";
const HEADER: usize = 16 + 16 + 8;
const SUFFIX: &[u8] = b".kernel";
const TEMPORARY: &[u8] = b"new-";
/// A temporary file this old belongs to a process that is gone.
const ABANDONED: Duration = Duration::from_secs(3600);

impl DiskCache {
    /// Opens the directory, or says why it cannot serve. One that is made is the user's alone; of one that is there, others
    /// may read.
    pub(crate) fn open(options: &DiskCacheOptions) -> Result<DiskCache, String> {
        let path = &options.directory;
        let about = |what: &str| format!("{}: {what}", path.display());
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|e| about(&e.to_string()))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(path, flags, Mode::empty()).map_err(|e| about(&e.to_string()))?;
        let stat = fstat(&directory).map_err(|e| about(&e.to_string()))?;
        if stat.st_uid != rustix::process::geteuid().as_raw() {
            return Err(about("the directory belongs to another user"));
        }
        if stat.st_mode & 0o022 != 0 {
            return Err(about("others may write to the directory"));
        }
        Ok(DiskCache {
            path: path.clone(),
            directory,
            bytes: options.bytes,
            room: AtomicU64::new(0),
            process: RandomState::new().build_hasher().finish(),
            stores: AtomicU64::new(0),
            trouble: Mutex::new(None),
            had_trouble: AtomicBool::new(false),
        })
    }

    /// The payload stored under that key, which then counts as just used.
    pub(crate) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.directory, file_name(key), flags, Mode::empty()).ok()?;
        let mut file = File::from(file);
        let len = file.metadata().ok()?.len();
        if len > self.bytes {
            return None;
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(usize::try_from(len).ok()?).ok()?;
        file.read_to_end(&mut bytes).ok()?;
        let payload = checked(&bytes, key)?;
        let start = bytes.len() - payload.len();
        // Where the time cannot be set, the file only goes sooner.
        drop(file.set_modified(SystemTime::now()));
        bytes.drain(..start);
        Some(bytes)
    }

    /// Stores a payload, given in parts, in place of what is there.
    pub(crate) fn put(&self, key: &Key, parts: &[&[u8]]) {
        let len = parts.iter().map(|p| p.len() as u64).sum::<u64>() + (HEADER + key.len()) as u64;
        if len > self.bytes {
            return;
        }
        if let Err(error) = self.store(key, parts) {
            return self.note(format!("{}: a kernel cannot be stored: {error}", self.path.display()));
        }
        // Relaxed: when files are counted need not be exact.
        let room =
            self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |r| Some(r.saturating_sub(len)));
        if room.is_ok_and(|room| room <= len)
            && let Err(error) = self.make_room()
        {
            self.note(format!("{}: old kernels cannot be removed: {error}", self.path.display()));
        }
    }

    /// What went wrong first, once.
    pub(crate) fn take_trouble(&self) -> Option<String> {
        // Relaxed: a report may come with the next call.
        if !self.had_trouble.load(Ordering::Relaxed) {
            return None;
        }
        self.trouble.lock().take()
    }

    fn note(&self, what: String) {
        if !self.had_trouble.swap(true, Ordering::Relaxed) {
            *self.trouble.lock() = Some(what);
        }
    }

    fn store(&self, key: &Key, parts: &[&[u8]]) -> io::Result<()> {
        // Relaxed: the numbers only have to differ.
        let number = self.stores.fetch_add(1, Ordering::Relaxed);
        let mut temporary = TEMPORARY.to_vec();
        temporary.extend_from_slice(format!("{:016x}-{number}", self.process).as_bytes());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(&self.directory, &*temporary, flags, Mode::RUSR | Mode::WUSR)?;
        let written = write(File::from(file), key, parts)
            .and_then(|()| Ok(renameat(&self.directory, &*temporary, &self.directory, file_name(key))?));
        if written.is_err() {
            let _ = unlinkat(&self.directory, &*temporary, AtFlags::empty());
        }
        written
    }

    /// Counts the files, and removes the least recently used if there are too many bytes. Others may do the same at
    /// the same time: what is gone already is no error.
    fn make_room(&self) -> io::Result<()> {
        let mut files = Vec::new();
        let mut total = 0;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let temporary = name.to_bytes().starts_with(TEMPORARY);
            if !temporary && !name.to_bytes().ends_with(SUFFIX) {
                continue;
            }
            let Ok(stat) = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let modified = (stat.st_mtime, stat.st_mtime_nsec);
            if !temporary {
                total += stat.st_size as u64;
                files.push((modified, stat.st_size as u64, name.to_owned()));
            } else if (stat.st_mtime as u64).saturating_add(ABANDONED.as_secs()) < now.as_secs() {
                let _ = unlinkat(&self.directory, name, AtFlags::empty());
            }
        }
        if total > self.bytes {
            // Some more than needed, so that not every store counts all files.
            let enough = self.bytes / 4 * 3;
            files.sort_unstable();
            // The last one is what was stored just now.
            files.pop();
            for (_, len, name) in files {
                if total <= enough {
                    break;
                }
                match unlinkat(&self.directory, &*name, AtFlags::empty()) {
                    Ok(()) | Err(rustix::io::Errno::NOENT) => total -= len,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        // Other processes store too: count again well before this one alone has used what is left.
        self.room.store(self.bytes.saturating_sub(total) / 8, Ordering::Relaxed);
        Ok(())
    }
}

fn file_name(key: &Key) -> String {
    let mut name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    name.push_str(".kernel");
    name
}

fn write(mut file: File, key: &Key, parts: &[&[u8]]) -> io::Result<()> {
    let len = parts.iter().map(|p| p.len() as u64).sum::<u64>();
    let mut header = Vec::with_capacity(HEADER + key.len());
    header.extend_from_slice(&MAGIC);
    header.extend_from_slice(&checksum(len, key, parts).to_le_bytes());
    header.extend_from_slice(&len.to_le_bytes());
    header.extend_from_slice(key);
    file.write_all(&header)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    // As exact as the times that hits set, which clocks of file systems are not.
    drop(file.set_modified(SystemTime::now()));
    Ok(())
}

/// The payload of a file's bytes, if these are what [`write`] wrote for that key.
fn checked<'a>(bytes: &'a [u8], key: &Key) -> Option<&'a [u8]> {
    let (magic, rest) = bytes.split_first_chunk()?;
    let (sum, rest) = rest.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (stored_key, payload) = rest.split_first_chunk()?;
    let len = u64::from_le_bytes(*len);
    let right = *magic == MAGIC
        && stored_key == key
        && len == payload.len() as u64
        && u128::from_le_bytes(*sum) == checksum(len, key, &[payload]);
    right.then_some(payload)
}

fn checksum(len: u64, key: &Key, parts: &[&[u8]]) -> u128 {
    let mut hasher = Xxh3::new();
    hasher.update(&len.to_le_bytes());
    hasher.update(key);
    parts.iter().for_each(|part| hasher.update(part));
    hasher.digest128()
}

#[cfg(test)]
mod tests;
