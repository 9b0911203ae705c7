//! What servers say of themselves, read: `/props` of llama-server and `/v1/models`. Pure.

use serde::Deserialize;

/// How many models of a list are kept.
const MAX_MODELS: usize = 1024;

/// An answer that is not what this kind of server gives.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer can't be understood ({0})")]
pub struct FactsError(String);

/// What llama-server says of itself in `/props`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Props {
    /// How many slots it has.
    pub total_slots: u32,
    /// The model's name on the wire; may be empty.
    #[serde(default)]
    pub model_alias: Option<String>,
    /// The model's file.
    #[serde(default)]
    pub model_path: Option<String>,
    /// How its weights are stored.
    #[serde(default)]
    pub model_ftype: Option<String>,
    /// The chat template, as text.
    #[serde(default)]
    pub chat_template: Option<String>,
    /// What the template can do; absent in old servers.
    #[serde(default)]
    pub chat_template_caps: TemplateCaps,
    /// Whether it shows its slots; old servers don't say.
    #[serde(default)]
    pub endpoint_slots: Option<bool>,
    #[serde(default)]
    default_generation_settings: GenerationSettings,
}

/// What a chat template can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct TemplateCaps {
    /// It shows tools to the model.
    pub supports_tools: bool,
    /// It shows earlier tool calls to the model.
    pub supports_tool_calls: bool,
    /// It shows earlier reasoning to the model.
    pub supports_preserve_reasoning: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
struct GenerationSettings {
    #[serde(default)]
    n_ctx: Option<u64>,
}

impl Props {
    /// Reads the body of `/props`.
    pub fn parse(body: &[u8]) -> Result<Self, FactsError> {
        let props: Self =
            serde_json::from_slice(body).map_err(|error| FactsError(error.to_string()))?;
        if props.total_slots == 0 {
            return Err(FactsError("it has no slots".to_owned()));
        }
        Ok(props)
    }

    /// How many tokens one slot's conversation may have.
    pub fn context_tokens(&self) -> Option<u64> {
        self.default_generation_settings
            .n_ctx
            .filter(|tokens| *tokens > 0)
    }

    /// The model's name: its alias, else its file's name.
    pub fn model(&self) -> String {
        let alias = self
            .model_alias
            .as_deref()
            .filter(|alias| !alias.is_empty());
        let file = self
            .model_path
            .as_deref()
            .and_then(|path| path.rsplit(['/', '\\']).next());
        let stem = file.map(|file| file.strip_suffix(".gguf").unwrap_or(file));
        alias
            .or(stem)
            .filter(|name| !name.is_empty())
            .unwrap_or("default")
            .to_owned()
    }
}

/// One model of a `/v1/models` list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Its name on the wire.
    pub id: String,
    /// How many tokens a conversation may have, where the server says.
    pub context_tokens: Option<u64>,
}

/// The models that a server offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Models(Vec<Model>);

#[derive(Deserialize)]
struct WireModels {
    data: Option<Vec<WireModel>>,
}

#[derive(Deserialize)]
struct WireModel {
    id: String,
    #[serde(default)]
    max_model_len: Option<u64>,
    #[serde(default)]
    context_length: Option<u64>,
    #[serde(default)]
    meta: Option<WireMeta>,
}

#[derive(Deserialize)]
struct WireMeta {
    #[serde(default)]
    n_ctx: Option<u64>,
}

impl Models {
    /// Reads the body of `/v1/models`; a list of none may be `null`.
    pub fn parse(body: &[u8]) -> Result<Self, FactsError> {
        /// Tells an absent list, which is no list of models, from an empty one.
        #[derive(Deserialize)]
        struct Marked {
            #[serde(default)]
            object: Option<String>,
        }
        let unread = |error: serde_json::Error| FactsError(error.to_string());
        let list: WireModels = serde_json::from_slice(body).map_err(unread)?;
        let models = if let Some(models) = list.data {
            models
        } else {
            let marked: Marked = serde_json::from_slice(body).map_err(unread)?;
            if marked.object.as_deref() != Some("list") {
                return Err(FactsError("it is not a list of models".to_owned()));
            }
            Vec::new()
        };
        Ok(Self(
            models
                .into_iter()
                .take(MAX_MODELS)
                .map(Model::from)
                .collect(),
        ))
    }

    /// The model of a name, or the first one where none is named.
    pub fn pick(&self, name: Option<&str>) -> Option<&Model> {
        match name {
            Some(name) => self.0.iter().find(|model| model.id == name),
            None => self.0.first(),
        }
    }

    /// The names of all models.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|model| model.id.as_str())
    }
}

impl From<WireModel> for Model {
    fn from(model: WireModel) -> Self {
        let told = model.max_model_len.or(model.context_length);
        let context_tokens = told.or_else(|| model.meta.and_then(|meta| meta.n_ctx));
        Self {
            id: model.id,
            context_tokens: context_tokens.filter(|tokens| *tokens > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn props_are_read() {
        let body = br#"{"default_generation_settings":{"params":{},"n_ctx":8192},"total_slots":3,
            "model_alias":"smol","model_path":"/m/Smol.Q4.gguf","chat_template":"x","media_marker":"r",
            "chat_template_caps":{"supports_tools":true,"supports_tool_calls":true,"supports_system_role":true}}"#;
        let props = Props::parse(body).unwrap();
        assert_eq!((props.total_slots, props.context_tokens()), (3, Some(8192)));
        assert!(props.chat_template_caps.supports_tool_calls);
        assert!(!props.chat_template_caps.supports_preserve_reasoning);
        assert_eq!(props.model(), "smol");
    }

    #[test]
    fn a_model_always_has_a_name() {
        let check = |body: &str, expect: &str| {
            assert_eq!(Props::parse(body.as_bytes()).unwrap().model(), expect);
        };
        check(r#"{"total_slots":1,"model_path":"/a/b.gguf"}"#, "b");
        check(
            r#"{"total_slots":1,"model_alias":"","model_path":"c"}"#,
            "c",
        );
        check(r#"{"total_slots":1,"model_alias":null}"#, "default");
    }

    #[test]
    fn others_are_not_taken_for_a_llama_server() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"error":"Unexpected endpoint"}"#,
            r#"{"total_slots":0}"#,
            "<html>",
        ] {
            assert!(Props::parse(body.as_bytes()).is_err(), "{body}");
        }
    }

    #[test]
    fn models_are_listed_and_picked() {
        let body = br#"{"object":"list","data":[{"id":"a","meta":{"n_ctx":64}},{"id":"b","max_model_len":32}]}"#;
        let models = Models::parse(body).unwrap();
        assert_eq!(models.pick(None).unwrap().context_tokens, Some(64));
        assert_eq!(models.pick(Some("b")).unwrap().context_tokens, Some(32));
        assert_eq!(models.pick(Some("c")), None);
        let none = Models::parse(br#"{"object":"list","data":null}"#).unwrap();
        assert_eq!(none.pick(None), None);
        for body in ["{}", "[]", r#"{"data":[{}]}"#, "<html>"] {
            assert!(Models::parse(body.as_bytes()).is_err(), "{body}");
        }
    }
}
