//! The world around us, in questions that fit no table.

use super::Dialogue;

const DIALOGUES: &str = "
Why is the sky blue? | Why does the sky look blue? | What makes the sky blue? | How come the sky is blue?
= Because air scatters blue light the most.
天空为什么是蓝色的？ | 为什么天是蓝的？ | 天为什么是蓝色的？ | 是什么让天空变蓝？
= 因为空气把蓝光散射得最多。

Where does the Sun rise? | In which direction does the Sun rise? | Where does the Sun come up?
Where is the sunrise?
= The Sun rises in the east.
太阳从哪里升起？ | 太阳从哪边升起？ | 太阳从哪个方向升起？ | 日出在哪边？
= 太阳从东方升起。

What does the Earth go around? | What does the Earth orbit? | What does our planet move around?
Does the Earth go around the Sun?
= The Earth goes around the Sun.
地球绕着什么转？ | 地球围绕什么转？ | 地球绕什么运动？ | 地球绕着太阳转吗？
= 地球绕着太阳转。

Who was the first person on the Moon? | Who first walked on the Moon? | Which person was first on the Moon?
Who walked on the Moon first?
= Neil Armstrong was the first on the Moon.
谁第一个登上月球？ | 第一个登上月球的人是谁？ | 最早登上月球的是谁？ | 谁最先登上月球？
= 第一个登上月球的人是阿姆斯特朗。

Which planet has rings? | Which planet is famous for its rings? | What planet has big rings?
What is the planet with rings?
= Saturn is famous for its rings.
哪颗行星有光环？ | 有光环的行星是哪个？ | 哪颗行星的光环最有名？ | 什么行星有漂亮的光环？
= 土星的光环最有名。

At what temperature does water boil? | When does water boil? | What is the boiling point of water?
How hot is boiling water?
= Water boils at 100 degrees Celsius.
水在多少度沸腾？ | 水烧到多少度会开？ | 水的沸点是多少？ | 开水有多少度？
= 水在100摄氏度沸腾。

What is ice? | What is ice made of? | What does water become when it freezes?
What do you get when water freezes?
= Ice is frozen water.
冰是什么？ | 冰是什么变的？ | 水结冰后变成什么？ | 冰是由什么变成的？
= 冰是水冻成的。

What do plants need? | What do plants need to grow? | What does a plant need to live?
What makes plants grow?
= Plants need light, water and air.
植物需要什么？ | 植物生长需要什么？ | 植物靠什么长大？ | 种花需要什么？
= 植物需要阳光、水和空气。

What does a caterpillar become? | What do caterpillars turn into? | What does a caterpillar turn into?
What will a caterpillar be?
= A caterpillar becomes a butterfly.
毛毛虫会变成什么？ | 毛毛虫长大变成什么？ | 毛毛虫以后是什么？ | 毛毛虫最后变成什么？
= 毛毛虫会变成蝴蝶。

Is the Earth flat? | What shape is the Earth? | Is the Earth round? | What is the shape of the Earth?
= The Earth is round like a ball.
地球是平的吗？ | 地球是什么形状？ | 地球是圆的吗？ | 地球是什么形状的？
= 地球像球一样圆。

Which came first, the chicken or the egg? | What was first, the chicken or the egg? | Chicken or egg?
Was the egg first or the chicken?
= Nobody has told me the answer to that one!
先有鸡还是先有蛋？ | 鸡和蛋哪个先？ | 先有蛋还是先有鸡？ | 鸡先还是蛋先？
= 这个问题还没人告诉我答案！
";

pub(super) fn dialogues() -> Vec<Dialogue> {
    Dialogue::parse(DIALOGUES)
}
