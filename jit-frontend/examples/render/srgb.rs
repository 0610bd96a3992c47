//! The transfer curve of sRGB, IEC 61966-2-1.

/// Light of a stored value, both in [0, 1].
pub(crate) fn to_linear(stored: f32) -> f32 {
    if stored <= 0.04045 { stored / 12.92 } else { ((stored + 0.055) / 1.055).powf(2.4) }
}

/// The stored byte for light, which saturates at 1.
pub(crate) fn to_byte(light: f32) -> u8 {
    let light = light.clamp(0.0, 1.0);
    let stored = if light <= 0.003_130_8 { light * 12.92 } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 };
    (stored * 255.0).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        for byte in 0..=255 {
            assert_eq!(to_byte(to_linear(f32::from(byte) / 255.0)), byte);
        }
    }

    #[test]
    fn light_out_of_range_saturates() {
        assert_eq!([to_byte(-1.0), to_byte(12.0), to_byte(f32::NAN)], [0, 255, 0]);
    }

    #[test]
    fn half_grey_is_a_fifth_of_the_light() {
        assert!((to_linear(0.5) - 0.214_04).abs() < 1e-5);
    }
}
