//! Messages of minigpt-charts.

use super::Chinese;
use minigpt_charts::TimeUnit;

impl Chinese for TimeUnit {
    fn chinese(&self) -> String {
        match self {
            Self::Milliseconds | Self::Seconds | Self::Minutes | Self::Hours => self.to_string(),
            Self::Days => "天".to_owned(),
            Self::Years => "年".to_owned(),
        }
    }
}
