//! How a saying goes on: English proverbs, and lines of Tang and older poems.

use super::{Table, Topic, Wording};

const PROVERBS: &str = "
start | end
an apple a day | keeps the doctor away
the early bird | catches the worm
practice makes | perfect
better late | than never
time is | money
knowledge is | power
honesty is | the best policy
actions speak | louder than words
curiosity killed | the cat
";

const UNKNOWN_PROVERBS: &str = "
start
a cat on the moon
two bowls of noodles
the blue teapot
my uncle always
seven small stones
never sing to a wug
";

const POEMS: &str = "
上句 | 下句
床前明月光 | 疑是地上霜
举头望明月 | 低头思故乡
春眠不觉晓 | 处处闻啼鸟
白日依山尽 | 黄河入海流
欲穷千里目 | 更上一层楼
锄禾日当午 | 汗滴禾下土
谁知盘中餐 | 粒粒皆辛苦
红豆生南国 | 春来发几枝
海内存知己 | 天涯若比邻
野火烧不尽 | 春风吹又生
";

const UNKNOWN_POEMS: &str = "
上句
小猫坐在月亮上
今天中午吃面条
我家有个蓝茶壶
两块石头下山去
老师明天不上课
乌格兽来我家吃饭
";

pub(super) fn topics() -> Vec<Topic> {
    vec![proverbs(), poems()]
}

fn proverbs() -> Topic {
    Topic {
        name: "proverbs",
        facts: Table::parse(PROVERBS),
        unknown: Table::parse(UNKNOWN_PROVERBS),
        en: Wording {
            ask: &[
                "{Start}...",
                "Finish the saying: {start}...",
                "Complete the proverb: {start}...",
                "What comes after \"{start}\"?",
                "How does \"{start}\" go on?",
                "How does the saying \"{start}\" end?",
            ],
            answer: "{Start} {end}.",
        },
        zh: Wording::default(),
    }
}

fn poems() -> Topic {
    Topic {
        name: "poems",
        facts: Table::parse(POEMS),
        unknown: Table::parse(UNKNOWN_POEMS),
        en: Wording::default(),
        zh: Wording {
            ask: &[
                "“{上句}”的下一句是什么？",
                "{上句}的下一句是什么？",
                "{上句}，下一句呢？",
                "“{上句}”后面是什么？",
                "请接下一句：{上句}。",
                "{上句}，",
            ],
            answer: "{上句}，{下句}。",
        },
    }
}
