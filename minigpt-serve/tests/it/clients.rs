//! A client that others wrote: `async-openai`, with the types that it expects.

use crate::support::*;
use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::types::chat::{
    ChatCompletionRequestUserMessageArgs, CreateChatCompletionRequest, CreateChatCompletionRequestArgs,
    FinishReason,
};
use async_openai::types::completions::CreateCompletionRequestArgs;
use futures_core::Stream;
use std::future::Future;

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn client(site: &Site) -> Client<OpenAIConfig> {
    let config = OpenAIConfig::new().with_api_base(format!("http://{}/v1", site.address)).with_api_key("any");
    Client::with_config(config)
}

fn chat(text: &str, stream: bool) -> CreateChatCompletionRequest {
    let message = ChatCompletionRequestUserMessageArgs::default().content(text).build().unwrap();
    CreateChatCompletionRequestArgs::default()
        .model("plain")
        .messages([message.into()])
        .max_completion_tokens(12u32)
        .temperature(0.0)
        .logprobs(true)
        .top_logprobs(2)
        .stream(stream)
        .build()
        .unwrap()
}

#[test]
fn chats_texts_and_models() {
    let site = Site::new(vec![plain()]);
    run(async {
        let client = client(&site);
        let models = client.models().list().await.unwrap();
        assert_eq!(models.data[0].id, "plain");
        assert_eq!(client.models().retrieve("plain").await.unwrap().owned_by, "minigpt");

        let answer = client.chat().create(chat("hello", false)).await.unwrap();
        let choice = &answer.choices[0];
        let content = choice.message.content.clone().unwrap();
        assert!(choice.finish_reason.is_some());
        let entries = choice.logprobs.clone().unwrap().content.unwrap();
        assert!(entries.iter().all(|entry| entry.top_logprobs.len() == 2 && entry.bytes.is_some()));
        assert_eq!(answer.usage.unwrap().prompt_tokens, 5);

        let mut stream = client.chat().create_stream(chat("hello", true)).await.unwrap();
        let (mut said, mut finished) = (String::new(), None);
        while let Some(chunk) =
            std::future::poll_fn(|context| Stream::poll_next(stream.as_mut(), context)).await
        {
            for choice in chunk.unwrap().choices {
                said += choice.delta.content.as_deref().unwrap_or("");
                finished = choice.finish_reason.or(finished);
            }
        }
        assert_eq!(said, content);
        assert!(matches!(finished, Some(FinishReason::Length | FinishReason::Stop)));

        let request = CreateCompletionRequestArgs::default()
            .model("plain")
            .prompt(vec!["a", "b"])
            .max_tokens(5u32)
            .logprobs(3)
            .echo(true)
            .n(2)
            .build()
            .unwrap();
        let answer = client.completions().create(request).await.unwrap();
        assert_eq!(answer.choices.len(), 4);
        assert!(answer.choices[0].text.starts_with('a') && answer.choices[2].text.starts_with('b'));
        let logprobs = answer.choices[0].logprobs.clone().unwrap();
        assert_eq!((logprobs.tokens[0].as_str(), logprobs.token_logprobs[0]), ("a", None));
    });
}

#[test]
fn errors_are_understood() {
    let strict = minigpt_serve::ServeConfig { strict_model: true, ..config() };
    let site = Site::with(strict, vec![plain()], &engine());
    run(async {
        let client = client(&site);
        let mut request = chat(&"long ".repeat(100), false);
        let Err(OpenAIError::ApiError(error)) = client.chat().create(request.clone()).await else { panic!() };
        assert!(error.to_string().contains("96 tokens"), "{error}");
        request.model = "gpt-4".to_owned();
        let Err(OpenAIError::ApiError(error)) = client.chat().create(request).await else { panic!() };
        assert!(error.to_string().contains("gpt-4"), "{error}");
    });
}
