//! Words: opposites, translations, and the measure words of Chinese.

use super::{Table, Topic, Wording};

/// Read both ways: a word has one opposite only, in either column.
const OPPOSITES: &str = "
word | opposite | 词 | 反义词
hot | cold | 热 | 冷
big | small | 大 | 小
long | short | 长 | 短
high | low | 高 | 低
fast | slow | 快 | 慢
new | old | 新 | 旧
good | bad | 好 | 坏
happy | sad | 高兴 | 难过
heavy | light | 重 | 轻
black | white | 黑 | 白
up | down | 上 | 下
left | right | 左 | 右
open | closed | 开 | 关
early | late | 早 | 晚
strong | weak | 强 | 弱
true | false | 真 | 假
inside | outside | 里 | 外
laugh | cry | 笑 | 哭
";

const UNKNOWN_OPPOSITES: &str = "
word | 词
table | 桌子
banana | 香蕉
zebra | 斑马
piano | 钢琴
seven | 七
Tuesday | 星期二
blorp | 布洛普
pencil | 铅笔
window | 窗户
music | 音乐
elephant | 大象
Paris | 巴黎
";

const TRANSLATIONS: &str = "
word | 词
water | 水
moon | 月亮
sun | 太阳
snow | 雪
cat | 猫
dog | 狗
bird | 鸟
fish | 鱼
flower | 花
tree | 树
apple | 苹果
book | 书
friend | 朋友
teacher | 老师
mother | 妈妈
love | 爱
computer | 电脑
hello | 你好
thank you | 谢谢
goodbye | 再见
";

const UNKNOWN_TRANSLATIONS: &str = "
word | 词
refrigerator | 冰箱
economy | 经济
umbrella | 雨伞
philosophy | 哲学
blorp | 布洛普
elbow | 手肘
towel | 毛巾
invoice | 发票
lizard | 蜥蜴
bicycle | 自行车
pillow | 枕头
history | 历史
button | 纽扣
engine | 发动机
carpet | 地毯
law | 法律
";

const MEASURE_WORDS: &str = "
名词 | 量词
书 | 本
马 | 匹
鱼 | 条
车 | 辆
飞机 | 架
花 | 朵
树 | 棵
纸 | 张
笔 | 支
伞 | 把
画 | 幅
歌 | 首
星星 | 颗
";

const UNKNOWN_MEASURE_WORDS: &str = "
名词
布洛普
独角兽
乌格兽
经济
佐布糕
爱情
空气
历史
";

pub(super) fn topics() -> Vec<Topic> {
    vec![opposites(), into_the_other_language(), into_the_language_of_the_question(), measure_words()]
}

fn opposites() -> Topic {
    Topic {
        name: "opposites",
        facts: Table::parse(OPPOSITES).both_ways(&[("word", "opposite"), ("词", "反义词")]),
        unknown: Table::parse(UNKNOWN_OPPOSITES),
        en: Wording {
            ask: &[
                "What is the opposite of {word}?",
                "What's the opposite of {word}?",
                "Opposite of {word}?",
                "Which word is the opposite of {word}?",
                "Tell me the opposite of {word}.",
                "What is the antonym of {word}?",
            ],
            answer: "The opposite of {word} is {opposite}.",
        },
        zh: Wording {
            ask: &[
                "{词}的反义词是什么？",
                "“{词}”的反义词是什么？",
                "{词}的反义词是哪个？",
                "跟{词}相反的词是什么？",
                "你知道{词}的反义词吗？",
                "请问{词}的反义词是什么？",
            ],
            answer: "“{词}”的反义词是“{反义词}”。",
        },
    }
}

fn into_the_other_language() -> Topic {
    Topic {
        name: "into the other language",
        facts: Table::parse(TRANSLATIONS),
        unknown: Table::parse(UNKNOWN_TRANSLATIONS),
        en: Wording {
            ask: &[
                "How do you say {word} in Chinese?",
                "What is {word} in Chinese?",
                "What's the Chinese for {word}?",
                "What is the Chinese word for {word}?",
                "Translate {word} into Chinese.",
                "{Word} in Chinese?",
            ],
            answer: "The Chinese for {word} is {词}.",
        },
        zh: Wording {
            ask: &[
                "{词}用英语怎么说？",
                "“{词}”的英语是什么？",
                "{词}的英文是什么？",
                "“{词}”英文怎么说？",
                "把{词}翻译成英语。",
                "请问{词}用英文怎么说？",
            ],
            answer: "“{词}”的英语是“{word}”。",
        },
    }
}

fn into_the_language_of_the_question() -> Topic {
    Topic {
        name: "into the language of the question",
        facts: Table::parse(TRANSLATIONS),
        unknown: Table::parse(UNKNOWN_TRANSLATIONS),
        en: Wording {
            ask: &[
                "What does {词} mean?",
                "What is {词} in English?",
                "What's the English for {词}?",
                "What is the meaning of {词}?",
                "Translate {词} into English.",
            ],
            answer: "{词} means {word}.",
        },
        zh: Wording {
            ask: &[
                "{word}是什么意思？",
                "“{word}”是什么意思？",
                "{word}用中文怎么说？",
                "{word}的中文是什么？",
                "把{word}翻译成中文。",
            ],
            answer: "“{word}”的意思是“{词}”。",
        },
    }
}

fn measure_words() -> Topic {
    Topic {
        name: "measure words",
        facts: Table::parse(MEASURE_WORDS),
        unknown: Table::parse(UNKNOWN_MEASURE_WORDS),
        en: Wording::default(),
        zh: Wording {
            ask: &[
                "{名词}用什么量词？",
                "{名词}的量词是什么？",
                "“{名词}”应该用哪个量词？",
                "一什么{名词}？",
                "你知道{名词}的量词吗？",
                "请问{名词}用哪个量词？",
            ],
            answer: "我们说“一{量词}{名词}”。",
        },
    }
}
