//! The sum that condenses a result.

/// The sum of the values in f64, each weighted by `1 + (position mod 1024) / 1024`, so that swapped elements show.
pub fn checksum<T: Copy + Into<f64>>(values: &[T]) -> f64 {
    // One sum for each weight: short chains of roundings, as in the script.
    let mut sums = [0.0; 1024];
    for row in values.chunks(1024) {
        for (sum, &value) in sums.iter_mut().zip(row) {
            *sum += value.into();
        }
    }
    sums.iter().enumerate().map(|(i, sum)| sum * (1.0 + i as f64 / 1024.0)).sum()
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn positions_count() {
        assert_eq!(checksum(&[1.0f32, 0.0]), 1.0);
        assert_eq!(checksum(&[0.0f32, 1.0]), 1.0 + 1.0 / 1024.0);
        let mut long = vec![0u32; 1025];
        long[1024] = 3;
        assert_eq!(checksum(&long), 3.0);
    }
}
