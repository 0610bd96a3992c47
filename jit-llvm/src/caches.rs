//! The processor's caches.

/// The size of the last-level cache in bytes, as Linux states it; where it does not, what is common.
pub(crate) fn last_level_cache() -> u64 {
    const COMMON: u64 = 32 << 20;
    let caches = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").into_iter().flatten();
    let sizes = caches.flatten().filter_map(|cache| {
        let read = |name| std::fs::read_to_string(cache.path().join(name)).ok();
        let level: u32 = read("level")?.trim().parse().ok()?;
        Some((level, bytes(&read("size")?)?))
    });
    sizes.max().map_or(COMMON, |(_, bytes)| bytes)
}

/// A size such as `32768K`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let unit = text.chars().last()?;
    let (number, shift) = match unit {
        'K' => (text.strip_suffix(unit)?, 10),
        'M' => (text.strip_suffix(unit)?, 20),
        'G' => (text.strip_suffix(unit)?, 30),
        _ => (text, 0),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_with_and_without_a_unit() {
        let sizes = ["32768K\n", "2M", "1G", "512"].map(bytes);
        assert_eq!(sizes, [Some(32 << 20), Some(2 << 20), Some(1 << 30), Some(512)]);
        let wrong = ["K", "", "-1K", "99999999999999G"].map(bytes);
        assert_eq!(wrong, [None; 4]);
    }
}
