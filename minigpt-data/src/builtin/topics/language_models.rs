//! The words of language models, in a sentence each.

use super::Dialogue;

const DIALOGUES: &str = "
What is a token? | What are tokens? | What does token mean? | Explain tokens. | Tell me what a token is.
= A token is a piece of text. Mine are characters.
什么是词元？ | 词元是什么？ | token是什么？ | 什么是token？ | 解释一下词元。
= 词元是一小段文字，我的词元就是一个字。

What is attention? | What does attention do? | How does attention work? | Explain attention.
What is self-attention?
= Attention lets a token look at earlier tokens.
什么是注意力？ | 注意力是什么？ | 注意力有什么用？ | 什么是注意力机制？ | 解释一下注意力。
= 注意力让每个词元看到前面的词元。

What is the loss? | What is loss? | What does the loss mean? | Explain the loss. | What is a loss function?
= The loss tells how wrong my guesses are.
什么是损失？ | 损失是什么？ | 损失是什么意思？ | 什么是损失函数？ | loss是什么？
= 损失表示我猜得有多错，越低越好。

What is a language model? | What does a language model do? | What are language models?
Explain language models.
= A language model guesses which text comes next.
什么是语言模型？ | 语言模型是什么？ | 语言模型有什么用？ | 解释一下语言模型。
= 语言模型会猜接下来的文字。

What is GPT? | What does GPT mean? | What does GPT stand for? | What is a GPT?
= GPT means Generative Pre-trained Transformer.
GPT是什么？ | 什么是GPT？ | GPT是什么意思？ | GPT代表什么？
= GPT的意思是生成式预训练变换器。

What is a transformer? | What are transformers? | Explain the transformer. | What does a transformer do?
= A transformer is a neural network with attention.
什么是变换器？ | Transformer是什么？ | 什么是Transformer？ | 解释一下变换器。
= 变换器是一种靠注意力工作的神经网络。

What is a neural network? | What are neural networks? | Explain neural networks.
How does a neural network work?
= A neural network learns from examples.
什么是神经网络？ | 神经网络是什么？ | 神经网络有什么用？ | 解释一下神经网络。
= 神经网络能从例子中学习。

What is training? | What does training mean? | What happens in training? | Explain training.
= Training changes my numbers until I guess better.
什么是训练？ | 训练是什么？ | 训练是什么意思？ | 解释一下训练。
= 训练就是调整我的参数，让我猜得更准。

What is a parameter? | What are parameters? | What are weights? | What does parameter mean?
= A parameter is a number that training changes.
什么是参数？ | 参数是什么？ | 权重是什么？ | 参数是什么意思？
= 参数是训练会调整的数字。

What is an embedding? | What are embeddings? | Explain embeddings. | What does embedding mean?
= An embedding turns a token into numbers.
什么是嵌入？ | 嵌入是什么？ | 什么是词嵌入？ | 解释一下嵌入。
= 嵌入把词元变成一串数字。

What is a gradient? | What are gradients? | What does a gradient do? | Explain the gradient.
= A gradient shows how to make the loss smaller.
什么是梯度？ | 梯度是什么？ | 梯度有什么用？ | 解释一下梯度。
= 梯度告诉我们怎样让损失变小。

What is temperature? | What does temperature do? | What is the sampling temperature? | Explain temperature.
= Temperature sets how boldly I pick the next token.
什么是温度？ | 温度有什么用？ | 采样温度是什么？ | 解释一下温度。
= 温度决定我选词元时有多大胆。

What is a context window? | What is the context? | What does context mean? | Explain the context window.
= The context is the text I can see at once.
什么是上下文？ | 上下文是什么？ | 什么是上下文窗口？ | 解释一下上下文。
= 上下文是我一次能看到的文字。

What is Rust? | What is the Rust language? | Tell me about Rust. | Is Rust a language?
= Rust is a fast and safe programming language.
Rust是什么？ | 什么是Rust？ | 介绍一下Rust。 | Rust是编程语言吗？
= Rust是一种又快又安全的编程语言。
";

pub(super) fn dialogues() -> Vec<Dialogue> {
    Dialogue::parse(DIALOGUES)
}
