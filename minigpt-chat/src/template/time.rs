//! `strftime_now`, with which templates tell the model what day it is. In UTC: the time zone of a machine is nothing that its models
//! should know.

use super::bounds::refuse;
use crate::error::TemplateProblem;
use minijinja::Error;
use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The time now, in a format of C's `strftime`.
pub(super) fn strftime_now(format: &str) -> Result<String, Error> {
    if format.len() > 1000 {
        return refuse(TemplateProblem::TimeFormatTooLong);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    strftime(format, now)
}

/// The date of today in UTC, in a format of C's `strftime`; empty if the format is not supported.
pub fn today(format: &str) -> String {
    strftime_now(format).unwrap_or_default()
}

/// Year, month from 1 and day from 1 of a number of days since 1970.
fn date(days: u64) -> (u64, u64, u64) {
    // In years that begin with March, so that a leap day is the last of its year; 719,468 days lie between 0000-03-01 and 1970.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (era * 400 + year + u64::from(month <= 2), month, day)
}

fn strftime(format: &str, seconds: u64) -> Result<String, Error> {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month as usize - 1];
    let of_year = before + day + u64::from(leap && month > 2);
    let weekday = (days + 4) % 7;
    let (name, weekday_name) = (MONTHS[month as usize - 1], DAYS[weekday as usize]);
    let twelve = if hour % 12 == 0 { 12 } else { hour % 12 };
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let mut letter = rest.next().unwrap_or('%');
        let plain = letter == '-';
        if plain {
            letter = rest.next().unwrap_or('%');
        }
        let two = |n: u64| if plain { n.to_string() } else { format!("{n:02}") };
        text += &match letter {
            'Y' => year.to_string(),
            'y' => two(year % 100),
            'm' => two(month),
            'd' => two(day),
            'e' => format!("{day:2}"),
            'B' => name.to_owned(),
            'b' | 'h' => name[..3].to_owned(),
            'A' => weekday_name.to_owned(),
            'a' => weekday_name[..3].to_owned(),
            'w' => weekday.to_string(),
            'u' => (if weekday == 0 { 7 } else { weekday }).to_string(),
            'j' if plain => of_year.to_string(),
            'j' => format!("{of_year:03}"),
            'H' => two(hour),
            'I' => two(twelve),
            'M' => two(minute),
            'S' => two(second),
            'p' => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
            'F' => format!("{year}-{month:02}-{day:02}"),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            'R' => format!("{hour:02}:{minute:02}"),
            'D' | 'x' => format!("{month:02}/{day:02}/{:02}", year % 100),
            'X' => format!("{hour:02}:{minute:02}:{second:02}"),
            'c' => format!(
                "{} {} {day:2} {hour:02}:{minute:02}:{second:02} {year}",
                &weekday_name[..3],
                &name[..3]
            ),
            's' => seconds.to_string(),
            'f' => "000000".to_owned(),
            'z' => "+0000".to_owned(),
            'Z' => "UTC".to_owned(),
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            other => return refuse(TemplateProblem::TimeFormat(other)),
        };
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_python() {
        // datetime.fromtimestamp(n, timezone.utc).strftime(...)
        let all = "%Y %y %m %d %e %B %b %A %a %w %u %j %H %I %M %S %p %F %T %D %c %-d %-m %-H %%";
        for (seconds, want) in [
            (
                0,
                "1970 70 01 01  1 January Jan Thursday Thu 4 4 001 00 12 00 00 AM 1970-01-01 00:00:00 01/01/70 Thu Jan  1 00:00:00 1970 1 1 0 %",
            ),
            (
                951_782_399,
                "2000 00 02 28 28 February Feb Monday Mon 1 1 059 23 11 59 59 PM 2000-02-28 23:59:59 02/28/00 Mon Feb 28 23:59:59 2000 28 2 23 %",
            ),
            (
                951_868_800,
                "2000 00 03 01  1 March Mar Wednesday Wed 3 3 061 00 12 00 00 AM 2000-03-01 00:00:00 03/01/00 Wed Mar  1 00:00:00 2000 1 3 0 %",
            ),
            (
                1_798_761_599,
                "2026 26 12 31 31 December Dec Thursday Thu 4 4 365 23 11 59 59 PM 2026-12-31 23:59:59 12/31/26 Thu Dec 31 23:59:59 2026 31 12 23 %",
            ),
        ] {
            assert_eq!(strftime(all, seconds).unwrap(), want);
        }
        assert!(strftime("%Q", 0).is_err());
    }
}
