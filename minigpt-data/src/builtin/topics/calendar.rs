//! Days, months and seasons in their order.

use super::{Table, Topic, Wording};

const DAYS: &str = "
day | next | previous | 天 | 后天 | 前天 | 周
Monday | Tuesday | Sunday | 星期一 | 星期二 | 星期天 | 周一
Tuesday | Wednesday | Monday | 星期二 | 星期三 | 星期一 | 周二
Wednesday | Thursday | Tuesday | 星期三 | 星期四 | 星期二 | 周三
Thursday | Friday | Wednesday | 星期四 | 星期五 | 星期三 | 周四
Friday | Saturday | Thursday | 星期五 | 星期六 | 星期四 | 周五
Saturday | Sunday | Friday | 星期六 | 星期天 | 星期五 | 周六
Sunday | Monday | Saturday | 星期天 | 星期一 | 星期六 | 周日
";

const MONTHS: &str = "
month | next | length | 月 | 下月 | 天数 | 数
January | February | 31 days | 一月 | 二月 | 31天 | 1
February | March | 28 or 29 days | 二月 | 三月 | 28天或29天 | 2
March | April | 31 days | 三月 | 四月 | 31天 | 3
April | May | 30 days | 四月 | 五月 | 30天 | 4
May | June | 31 days | 五月 | 六月 | 31天 | 5
June | July | 30 days | 六月 | 七月 | 30天 | 6
July | August | 31 days | 七月 | 八月 | 31天 | 7
August | September | 31 days | 八月 | 九月 | 31天 | 8
September | October | 30 days | 九月 | 十月 | 30天 | 9
October | November | 31 days | 十月 | 十一月 | 31天 | 10
November | December | 30 days | 十一月 | 十二月 | 30天 | 11
December | January | 31 days | 十二月 | 一月 | 31天 | 12
";

pub(super) fn topics() -> Vec<Topic> {
    vec![next_day(), previous_day(), next_month(), month_length()]
}

fn next_day() -> Topic {
    Topic {
        name: "the next day",
        facts: Table::parse(DAYS),
        unknown: Table::default(),
        en: Wording {
            ask: &[
                "What day comes after {day}?",
                "What comes after {day}?",
                "Which day is after {day}?",
                "What is the day after {day}?",
                "If today is {day}, what is tomorrow?",
                "Tell me the day after {day}.",
            ],
            answer: "After {day} comes {next}.",
        },
        zh: Wording {
            ask: &[
                "{天}之后是星期几？",
                "{天}后面是星期几？",
                "{天}的后一天是星期几？",
                "{天}的第二天是星期几？",
                "今天是{天}，明天是星期几？",
                "{周}后面是周几？",
            ],
            answer: "{天}之后是{后天}。",
        },
    }
}

fn previous_day() -> Topic {
    Topic {
        name: "the previous day",
        facts: Table::parse(DAYS),
        unknown: Table::default(),
        en: Wording {
            ask: &[
                "What day comes before {day}?",
                "What comes before {day}?",
                "Which day is before {day}?",
                "What is the day before {day}?",
                "If today is {day}, what was yesterday?",
                "Tell me the day before {day}.",
            ],
            answer: "Before {day} comes {previous}.",
        },
        zh: Wording {
            ask: &[
                "{天}之前是星期几？",
                "{天}前面是星期几？",
                "{天}的前一天是星期几？",
                "{天}的上一天是星期几？",
                "今天是{天}，昨天是星期几？",
                "{周}前面是周几？",
            ],
            answer: "{天}之前是{前天}。",
        },
    }
}

fn next_month() -> Topic {
    Topic {
        name: "the next month",
        facts: Table::parse(MONTHS),
        unknown: Table::default(),
        en: Wording {
            ask: &[
                "What month comes after {month}?",
                "What comes after {month}?",
                "Which month is after {month}?",
                "What is the month after {month}?",
                "Which month follows {month}?",
                "Tell me the month after {month}.",
            ],
            answer: "After {month} comes {next}.",
        },
        zh: Wording {
            ask: &[
                "{月}之后是几月？",
                "{月}后面是几月？",
                "{月}的下一个月是几月？",
                "{月}过完是几月？",
                "{数}月之后是几月？",
                "请问{月}后面是哪个月？",
            ],
            answer: "{月}之后是{下月}。",
        },
    }
}

fn month_length() -> Topic {
    Topic {
        name: "days of a month",
        facts: Table::parse(MONTHS),
        unknown: Table::default(),
        en: Wording {
            ask: &[
                "How many days does {month} have?",
                "How many days are in {month}?",
                "How many days are there in {month}?",
                "How many days in {month}?",
                "How long is {month}?",
                "Tell me how many days {month} has.",
            ],
            answer: "{Month} has {length}.",
        },
        zh: Wording {
            ask: &[
                "{月}有多少天？",
                "{月}有几天？",
                "{月}一共有多少天？",
                "{数}月有多少天？",
                "你知道{月}有多少天吗？",
                "请问{月}有几天？",
            ],
            answer: "{月}有{天数}。",
        },
    }
}
