//! Colours of things, and what two paints make together.

use super::{Table, Topic, Wording};

const COLOURS: &str = "
thing | colour | 东西 | 颜色
the sky | blue | 天空 | 蓝色
grass | green | 草 | 绿色
a frog | green | 青蛙 | 绿色
snow | white | 雪 | 白色
milk | white | 牛奶 | 白色
a polar bear | white | 北极熊 | 白色
blood | red | 血 | 红色
a strawberry | red | 草莓 | 红色
coal | black | 煤 | 黑色
a crow | black | 乌鸦 | 黑色
a banana | yellow | 香蕉 | 黄色
a carrot | orange | 胡萝卜 | 橙色
chocolate | brown | 巧克力 | 棕色
an elephant | gray | 大象 | 灰色
a flamingo | pink | 火烈鸟 | 粉色
a panda | black and white | 熊猫 | 黑白两色
";

const UNKNOWN_COLOURS: &str = "
thing | 东西
my shirt | 我的衣服
my car | 我的车
your hair | 你的头发
a wug | 乌格兽
a zorb | 佐布兽
music | 音乐
time | 时间
my hat | 我的帽子
a ghost | 鬼
her bag | 她的包
";

pub(super) fn topics() -> Vec<Topic> {
    vec![colours()]
}

fn colours() -> Topic {
    Topic {
        name: "colours",
        facts: Table::parse(COLOURS),
        unknown: Table::parse(UNKNOWN_COLOURS),
        en: Wording {
            ask: &[
                "What color is {thing}?",
                "What colour is {thing}?",
                "Which color is {thing}?",
                "What is the color of {thing}?",
                "Do you know what color {thing} is?",
                "Tell me the color of {thing}.",
            ],
            answer: "{Thing} is {colour}.",
        },
        zh: Wording {
            ask: &[
                "{东西}是什么颜色的？",
                "{东西}是什么颜色？",
                "{东西}的颜色是什么？",
                "{东西}是哪种颜色？",
                "你知道{东西}是什么颜色吗？",
                "请问{东西}是什么颜色的？",
            ],
            answer: "{东西}是{颜色}的。",
        },
    }
}
