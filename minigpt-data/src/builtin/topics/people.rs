//! People and their works, and what people do.

use super::{Table, Topic, Wording};

const BOOKS: &str = "
book | author | 书 | 作者
Hamlet | William Shakespeare | 哈姆雷特 | 莎士比亚
Romeo and Juliet | William Shakespeare | 罗密欧与朱丽叶 | 莎士比亚
Don Quixote | Miguel de Cervantes | 堂吉诃德 | 塞万提斯
War and Peace | Leo Tolstoy | 战争与和平 | 托尔斯泰
The Old Man and the Sea | Ernest Hemingway | 老人与海 | 海明威
Harry Potter | J. K. Rowling | 哈利·波特 | 罗琳
The Little Mermaid | Hans Christian Andersen | 海的女儿 | 安徒生
Journey to the West | Wu Cheng'en | 西游记 | 吴承恩
Dream of the Red Chamber | Cao Xueqin | 红楼梦 | 曹雪芹
Water Margin | Shi Nai'an | 水浒传 | 施耐庵
- | - | 三国演义 | 罗贯中
On the Origin of Species | Charles Darwin | 物种起源 | 达尔文
- | - | 静夜思 | 李白
";

const UNKNOWN_BOOKS: &str = "
book | 书
The Blue Teapot | 蓝色的茶壶
A Cat in Autumn | 秋天的猫
Moon Soup | 月亮汤
my diary | 我的日记
The Last Noodle | 最后一根面条
Seven Small Stones | 七块小石头
this letter | 这封信
The Wug War | 乌格兽的战争
Green Snow | 绿色的雪
The Song of Zorland | 佐兰国之歌
";

const WORKS: &str = "
did | work | who | 做 | 作品 | 谁
painted | the Mona Lisa | Leonardo da Vinci | 画 | 《蒙娜丽莎》 | 达·芬奇
composed | Swan Lake | Tchaikovsky | 创作 | 《天鹅湖》 | 柴可夫斯基
discovered | radium | Marie Curie | 发现 | 镭 | 居里夫人
discovered | the law of gravity | Isaac Newton | 发现 | 万有引力 | 牛顿
proposed | relativity | Albert Einstein | 提出 | 相对论 | 爱因斯坦
invented | dynamite | Alfred Nobel | 发明 | 甘油炸药 | 诺贝尔
invented | the World Wide Web | Tim Berners-Lee | 发明 | 万维网 | 伯纳斯-李
created | Python | Guido van Rossum | 创造 | Python | 范罗苏姆
";

const UNKNOWN_WORKS: &str = "
did | work | 做 | 作品
invented | the fork | 发明 | 叉子
invented | the button | 发明 | 纽扣
invented | the pillow | 发明 | 枕头
painted | my house | 画 | 我家的墙
painted | The Blue Teapot | 画 | 《蓝色的茶壶》
composed | The Moon Soup Song | 创作 | 《月亮汤之歌》
discovered | zorbium | 发现 | 佐布石
created | this game | 创造 | 这个游戏
";

pub(super) fn topics() -> Vec<Topic> {
    vec![books(), works()]
}

fn books() -> Topic {
    Topic {
        name: "books",
        facts: Table::parse(BOOKS),
        unknown: Table::parse(UNKNOWN_BOOKS),
        en: Wording {
            ask: &[
                "Who wrote {book}?",
                "Who is the author of {book}?",
                "Who's the author of {book}?",
                "Author of {book}?",
                "Do you know who wrote {book}?",
                "Tell me who wrote {book}.",
            ],
            answer: "{Book} is by {author}.",
        },
        zh: Wording {
            ask: &[
                "《{书}》是谁写的？",
                "《{书}》的作者是谁？",
                "{书}是谁写的？",
                "谁写了《{书}》？",
                "你知道《{书}》的作者是谁吗？",
                "请问{书}的作者是谁？",
            ],
            answer: "《{书}》的作者是{作者}。",
        },
    }
}

fn works() -> Topic {
    Topic {
        name: "works",
        facts: Table::parse(WORKS),
        unknown: Table::parse(UNKNOWN_WORKS),
        en: Wording {
            ask: &[
                "Who {did} {work}?",
                "Who was it that {did} {work}?",
                "Which person {did} {work}?",
                "{Work} was {did} by whom?",
                "Do you know who {did} {work}?",
                "Tell me who {did} {work}.",
            ],
            answer: "{Work} was {did} by {who}.",
        },
        zh: Wording {
            ask: &[
                "{作品}是谁{做}的？",
                "谁{做}了{作品}？",
                "{作品}是哪个人{做}的？",
                "是谁{做}了{作品}？",
                "你知道{作品}是谁{做}的吗？",
                "请问{作品}是谁{做}的？",
            ],
            answer: "{作品}是{谁}{做}的。",
        },
    }
}
