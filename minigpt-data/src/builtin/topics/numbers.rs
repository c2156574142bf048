//! Small sums and differences, and how many of something there are.

use super::{Table, Topic, Wording};

const DIGITS: [(&str, &str); 10] = [
    ("zero", "零"),
    ("one", "一"),
    ("two", "二"),
    ("three", "三"),
    ("four", "四"),
    ("five", "五"),
    ("six", "六"),
    ("seven", "七"),
    ("eight", "八"),
    ("nine", "九"),
];

/// Sums beyond the small ones.
const UNKNOWN_CALCULATIONS: &str = "
a | b | first | second | 甲 | 乙
23 | 58 | - | - | - | -
17 | 46 | - | - | - | -
35 | 12 | - | - | - | -
81 | 19 | - | - | - | -
64 | 27 | - | - | - | -
52 | 31 | - | - | - | -
93 | 75 | - | - | - | -
40 | 26 | - | - | - | -
77 | 38 | - | - | - | -
99 | 11 | - | - | - | -
66 | 53 | - | - | - | -
84 | 42 | - | - | - | -
7 | 68 | - | - | - | -
34 | 9 | - | - | - | -
128 | 256 | - | - | - | -
500 | 73 | - | - | - | -
617 | 394 | - | - | - | -
905 | 480 | - | - | - | -
742 | 6 | - | - | - | -
1234 | 5678 | - | - | - | -
2048 | 77 | - | - | - | -
3141 | 592 | - | - | - | -
8000 | 1999 | - | - | - | -
12345 | 678 | - | - | - | -
98765 | 43210 | - | - | - | -
271828 | 18 | - | - | - | -
";

const COUNTS: &str = "
things | where | whole | number | 整体 | 单位 | 数
days | in a week | a week | seven | 一周 | 天 | 七
months | in a year | a year | twelve | 一年 | 个月 | 十二
seasons | in a year | a year | four | 一年 | 个季节 | 四
hours | in a day | a day | 24 | 一天 | 个小时 | 24
minutes | in an hour | an hour | 60 | 一小时 | 分钟 | 60
seconds | in a minute | a minute | 60 | 一分钟 | 秒 | 60
years | in a century | a century | 100 | 一个世纪 | 年 | 100
sides | in a triangle | a triangle | three | 三角形 | 条边 | 三
sides | in a hexagon | a hexagon | six | 六边形 | 条边 | 六
letters | in the alphabet | the alphabet | 26 | 英语 | 个字母 | 26
colors | in a rainbow | a rainbow | seven | 彩虹 | 种颜色 | 七
planets | in the solar system | the solar system | eight | 太阳系 | 颗行星 | 八
continents | on Earth | Earth | seven | 地球上 | 个大洲 | 七
fingers | on one hand | one hand | five | 一只手 | 根手指 | 五
wheels | on a bicycle | a bicycle | two | 自行车 | 个轮子 | 两
strings | on a guitar | a guitar | six | 吉他 | 根弦 | 六
centimeters | in a meter | a meter | 100 | 一米 | 厘米 | 100
meters | in a kilometer | a kilometer | 1000 | 一公里 | 米 | 1000
";

const UNKNOWN_COUNTS: &str = "
things | where | whole | 整体 | 单位
people | in this room | this room | 这个房间里 | 个人
coins | in my pocket | my pocket | 我口袋里 | 枚硬币
cats | in Paris | Paris | 巴黎 | 只猫
trees | in my street | my street | 我家门口 | 棵树
cars | on this road | this road | 这条路上 | 辆车
books | in your house | your house | 你家里 | 本书
birds | in that tree | that tree | 那棵树上 | 只鸟
apples | in the basket | the basket | 篮子里 | 个苹果
windows | in London | London | 伦敦 | 扇窗户
";

pub(super) fn topics() -> Vec<Topic> {
    vec![sums(), differences(), counts()]
}

/// Rows for all pairs of digits from 1 that a calculation wants, with its result.
fn calculations(result: fn(usize, usize) -> Option<usize>) -> Table {
    let columns = ["a", "b", "first", "second", "甲", "乙", "result"].map(String::from).to_vec();
    let mut rows = Vec::new();
    for (a, (first, 甲)) in DIGITS.into_iter().enumerate().skip(1) {
        for (b, (second, 乙)) in DIGITS.into_iter().enumerate().skip(1) {
            let Some(result) = result(a, b) else { continue };
            let words = [first, second, 甲, 乙].map(String::from);
            rows.push(
                [vec![a.to_string(), b.to_string()], words.to_vec(), vec![result.to_string()]].concat(),
            );
        }
    }
    Table::new(columns, rows)
}

fn sums() -> Topic {
    Topic {
        name: "sums",
        facts: calculations(|a, b| Some(a + b)),
        unknown: Table::parse(UNKNOWN_CALCULATIONS),
        en: Wording {
            ask: &[
                "What is {a} + {b}?",
                "{a} + {b} = ?",
                "{a}+{b}",
                "What's {a} plus {b}?",
                "What is {first} plus {second}?",
            ],
            answer: "{a} plus {b} is {result}.",
        },
        zh: Wording {
            ask: &[
                "{a}加{b}等于几？",
                "{a}+{b}等于多少？",
                "{a}加{b}是多少？",
                "{a} + {b} 是几？",
                "{甲}加{乙}等于几？",
            ],
            answer: "{a}加{b}等于{result}。",
        },
    }
}

fn differences() -> Topic {
    Topic {
        name: "differences",
        facts: calculations(|a, b| a.checked_sub(b)),
        unknown: Table::parse(UNKNOWN_CALCULATIONS),
        en: Wording {
            ask: &[
                "What is {a} - {b}?",
                "{a} - {b} = ?",
                "{a}-{b}",
                "What's {a} minus {b}?",
                "What is {first} minus {second}?",
            ],
            answer: "{a} minus {b} is {result}.",
        },
        zh: Wording {
            ask: &[
                "{a}减{b}等于几？",
                "{a}-{b}等于多少？",
                "{a}减{b}是多少？",
                "{a} - {b} 是几？",
                "{甲}减{乙}等于几？",
            ],
            answer: "{a}减{b}等于{result}。",
        },
    }
}

fn counts() -> Topic {
    Topic {
        name: "how many",
        facts: Table::parse(COUNTS),
        unknown: Table::parse(UNKNOWN_COUNTS),
        en: Wording {
            ask: &[
                "How many {things} are there {where}?",
                "How many {things} are {where}?",
                "How many {things} {where}?",
                "How many {things} does {whole} have?",
                "Do you know how many {things} {whole} has?",
                "Tell me how many {things} {whole} has.",
            ],
            answer: "{Whole} has {number} {things}.",
        },
        zh: Wording {
            ask: &[
                "{整体}有多少{单位}？",
                "{整体}有几{单位}？",
                "{整体}一共有多少{单位}？",
                "{整体}总共有几{单位}？",
                "你知道{整体}有多少{单位}吗？",
                "请问{整体}有多少{单位}？",
            ],
            answer: "{整体}有{数}{单位}。",
        },
    }
}
