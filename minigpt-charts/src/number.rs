//! Numbers in text: grouped, or short with a unit.

/// 1115394 as `1,115,394`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// 1115394 as `1.1 MB`.
pub fn bytes(number: u64) -> String {
    let (mut size, mut unit) = (number as f64, "B");
    for larger in ["kB", "MB", "GB", "TB"] {
        if size < 999.5 {
            break;
        }
        (size, unit) = (size / 1000.0, larger);
    }
    if unit == "B" || size >= 99.5 { format!("{size:.0} {unit}") } else { format!("{size:.1} {unit}") }
}

/// 174604259328 as `175 G`, for a unit to follow.
pub fn metric(number: f64) -> String {
    let (mut size, mut unit) = (number, "");
    for larger in ["k", "M", "G", "T", "P", "E", "Z", "Y"] {
        if size < 999.5 {
            break;
        }
        (size, unit) = (size / 1000.0, larger);
    }
    let digits = if size >= 99.5 || unit.is_empty() { 0 } else { 1 };
    format!("{size:.digits$} {unit}")
}

/// `1 line`, `2 lines`.
pub fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_sizes_short() {
        assert_eq!([0, 999, 1000, 1_115_394].map(count), ["0", "999", "1,000", "1,115,394"]);
        assert_eq!([0, 999, 1000, 228_145].map(bytes), ["0 B", "999 B", "1.0 kB", "228 kB"]);
        assert_eq!([999_999, 22_502_601, 2_227_753_162].map(bytes), ["1.0 MB", "22.5 MB", "2.2 GB"]);
        assert_eq!([0.0, 950.0, 1500.0, 174_604_259_328.0].map(metric), ["0 ", "950 ", "1.5 k", "175 G"]);
        assert_eq!([0, 1, 2].map(|n| counted(n, "line")), ["0 lines", "1 line", "2 lines"]);
    }
}
