#include "libsim/import/huggingface/huggingface_import.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "libsim/config/yaml_text.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/import/huggingface/huggingface_effects.hpp"
#include "libsim/import/huggingface/huggingface_families.hpp"
#include "libsim/import/text_file.hpp"
#include "libsim/model/model_config_reader.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/modules/blocks.hpp"
#include "libsim/run/foreign_format.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view experts = "a mixture of experts that this import does not read";
constexpr std::string_view encoder = "a model with an encoder, not a decoder alone";
constexpr std::string_view recurrent = "a recurrent or state-space model";
constexpr std::string_view linear = "most of its layers have linear attention, not modelled";
constexpr std::string_view convolutions = "most of its layers are convolutions, not modelled";
constexpr std::string_view images = "a model of images or sound too; its text_config alone may do";

constexpr std::array<std::pair<std::string_view, std::string_view>, 57> not_read{
    {{"qwen3_next", linear},
     {"deepseek", experts},
     {"dbrx", experts},
     // Source: transformers, modeling_phimoe.py, sparsemixer.
     {"phimoe",
      "its router draws choices at random in training and weights each by a softmax of its own "
      "over the logits near the largest; neither that nor the bias of its head is modelled"},
     {"jetmoe", experts},
     {"arctic", experts},
     {"llama4", images},
     {"minimax", linear},
     {"grok-1", experts},
     {"switch_transformers", experts},
     {"jamba", recurrent},
     {"t5", encoder},
     {"mt5", encoder},
     {"umt5", encoder},
     {"longt5", encoder},
     {"bart", encoder},
     {"mbart", encoder},
     {"pegasus", encoder},
     {"bert", encoder},
     {"roberta", encoder},
     {"xlm-roberta", encoder},
     {"distilbert", encoder},
     {"deberta-v2", encoder},
     {"whisper", encoder},
     {"vit", encoder},
     {"mamba", recurrent},
     {"mamba2", recurrent},
     {"rwkv", recurrent},
     {"gemma3", images},
     {"mpt", "its ALiBi positions and norms without biases are not modelled"},
     {"gptj", "the bias of its head is not modelled"},
     {"phi", "the bias of its head is not modelled"},
     {"olmo", "its norms without parameters are not modelled"},
     {"cohere", "its norms without biases before parallel layers are not modelled"},
     {"cohere2", "its norms without biases before parallel layers, and windows, are not modelled"},
     {"persimmon", "its squared ReLU without a gate is not modelled"},
     {"internlm2",
      "a type of a repository of its own, not of transformers; its keys may be those of llama"},
     {"baichuan",
      "a type of a repository of its own, not of transformers; its keys may be those of llama"},
     {"chatglm", "a type of a repository of its own, not of transformers"},
     {"minicpm",
      "a type of a repository of its own, not of transformers; its keys may be those of llama"},
     {"codegen", "the bias of its head is not modelled"},
     {"xglm", "its sinusoidal positions are not modelled"},
     {"flex_olmo", experts},
     {"longcat_flash", experts},
     {"solar_open", experts},
     {"afmoe", experts},
     {"falcon_h1", recurrent},
     {"zamba", recurrent},
     {"zamba2", recurrent},
     {"bamba", recurrent},
     {"nemotron_h", recurrent},
     {"minimax_m1", linear},
     {"lfm2", convolutions},
     {"lfm2_moe", convolutions},
     {"deepseek_v32", "its choice of the keys that a token attends to is not modelled"},
     {"diffllama", "its differential attention is not modelled"},
     {"gpt_neo",
      "its windows in every other layer and attention without biases are not modelled"}}};

/// Why a family cannot be read, such as "a mixture of experts"; of an unknown one what its name
/// tells.
std::string_view reason_against(std::string_view model_type) {
  auto const found = std::find_if(not_read.begin(), not_read.end(),
                                  [&](auto const& entry) { return entry.first == model_type; });
  if (found != not_read.end()) return found->second;
  auto const has = [&](std::string_view part) {
    return model_type.find(part) != std::string_view::npos;
  };
  if (has("linear") || has("qwen3_5")) return linear;
  if (has("mamba") || has("rwkv") || has("hybrid") || has("recurrent")) return recurrent;
  if (has("_vl") || has("vision") || has("omni") || has("audio") || has("llava")) return images;
  if (has("moe")) return experts;
  if (has("bert") || has("t5")) return encoder;
  return "no class of transformers that this import knows";
}

/// The family that the file names; if it cannot be read, reports that and returns null.
HuggingfaceFamily const* read_family(ConfigNode const& root, std::string& model_type) {
  ConfigNode const node = root.child("model_type");
  if (!node.exists()) {
    node.report(family_names());
    return nullptr;
  }
  model_type = node.text().value_or("");
  HuggingfaceFamily const* const family = find_family(model_type);
  if (family != nullptr || !node.is_sound()) return family;
  std::string_view const reason = reason_against(model_type);
  std::string const because = reason.empty() ? "" : " (" + std::string{reason} + ")";
  node.report(node.found() + because, family_names());
  return nullptr;
}

/// Refuses kinds of models that keys of any family may ask for.
void refuse_other_kinds(ConfigNode const& root, HuggingfaceKeys& keys, bool has_experts) {
  for (std::string_view const key :
       {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"}) {
    auto const count = keys.find_integer({key}, {0, 1 << 20});
    if (count && *count > 1 && !has_experts) {
      root.child(key).report("no experts, as this family has none");
    }
  }
  keys.refuse_kind_if_true("is_encoder_decoder", "the encoder is left out");
  if (keys.has("quantization_config")) {
    keys.refuse("quantization_config", "no such key",
                "weights are modelled in the precision of training");
  }
  for (std::string_view const key : idle_keys) keys.without_effect({key});
}

/// The modules of multi-token prediction, which the class of the family does not have, but files of
/// checkpoints with experts name.
void read_predictions(HuggingfaceKeys& keys, bool are_wanted, ModelConfig& model) {
  constexpr std::string_view key = "num_nextn_predict_layers";
  constexpr IntegerRange counts{0, 100};
  if (are_wanted) {
    model.predicted_tokens = keys.integer({key}, counts);
  } else if (model.experts && keys.find_integer({key}, counts).value_or(0) > 0) {
    keys.note(
        "the modules of multi-token prediction are left out, as transformers does; "
        "--predicted-tokens reads them");
  }
}

Precision read_precision(HuggingfaceKeys& keys, std::optional<Precision> wanted) {
  std::optional<std::string> word = keys.find_text({"torch_dtype", "dtype"});
  if (wanted) return *wanted;
  if (!word) {
    keys.note("the file has no torch_dtype: fp16 is assumed (--precision P otherwise)");
    return Precision::fp16;
  }
  if (word->rfind("torch.", 0) == 0) word->erase(0, 6);
  if (*word == "float16") return Precision::fp16;
  if (*word == "bfloat16") return Precision::bf16;
  if (*word == "float32") return Precision::fp32;
  if (*word == "float64") return Precision::fp64;
  std::string_view const key = keys.has("torch_dtype") ? "torch_dtype" : "dtype";
  keys.refuse(key, "float16, bfloat16, float32, float64, or --precision P", "fp16 is modelled");
  return Precision::fp16;
}

/// Reads the model again as a model file, which checks what depends on several keys.
ModelConfig settle(ModelConfig const& model, std::string const& origin, Diagnostics& diagnostics) {
  Diagnostics checks;
  nlohmann::ordered_json map = to_json(model);
  if (model.head_dim == 0) map.erase("head_dim");
  auto const root = parse_yaml(yaml_text(map), origin, checks);
  ModelConfig settled = read_model_config(ConfigNode{*root, "", checks});
  Place const whole{std::make_shared<std::string const>(origin)};
  for (Problem problem : checks.problems()) {
    problem.place = whole;
    diagnostics.add(std::move(problem));
  }
  return settled;
}

}  // namespace

HuggingfaceImport parse_huggingface(std::string_view text,
                                    std::string const& origin,
                                    HuggingfaceOptions const& options) {
  Diagnostics diagnostics;
  require_json(text, origin, diagnostics);
  diagnostics.throw_if_any();
  // JSON is YAML, whose parser here keeps the place of every value.
  std::optional<YamlNode> const tree = parse_yaml(text, origin, diagnostics);
  diagnostics.throw_if_any();
  ConfigNode const whole{*tree, "", diagnostics};
  if (!whole.is_map()) whole.report("a JSON object");
  diagnostics.throw_if_any();

  HuggingfaceImport result;
  // Of a model of images or sound the language model is read.
  ConfigNode const inner = whole.child("text_config");
  ConfigNode const& root = inner.is_map() ? inner : whole;
  HuggingfaceFamily const* const family = read_family(root, result.model_type);
  diagnostics.throw_if_any();

  Omissions omissions{options.ignore, options.strictness};
  HuggingfaceKeys keys{root, omissions};
  ModelConfig model;
  model.attention = options.attention;  // before the kinds of a pattern are copied from the model
  family->read(keys, options.sequence, model);
  if (!options.sequence) {
    keys.note("sequence " + std::to_string(model.sequence) +
              " is the longest that the file allows, which need not be what is trained: "
              "--sequence N sets another");
  }
  read_predictions(keys, options.predicted_tokens, model);
  refuse_other_kinds(root, keys, model.experts.has_value());
  model.precision = read_precision(keys, options.precision);
  model.causal_mask =
      options.attention == Attention::flash ? CausalMask::none : CausalMask::per_microbatch;
  result.notes = keys.finish();
  result.left_out = omissions.list();
  if (inner.is_map()) {
    result.notes.insert(result.notes.begin(),
                        "text_config alone is read: the parts for images or "
                        "sound are left out");
  }
  diagnostics.throw_if_any();
  result.notes.push_back("not in any config.json: attention " +
                         std::string{name_of(model.attention)} + " (--attention), causal_mask " +
                         std::string{name_of(model.causal_mask)} +
                         ", dropout_mask stored, vocabulary_multiple 128");
  result.model = settle(model, origin, diagnostics);
  diagnostics.throw_if_any();
  return result;
}

HuggingfaceImport import_huggingface(std::filesystem::path const& path,
                                     HuggingfaceOptions const& options) {
  std::string const text = read_text_file(path, "a config.json");
  auto const format = foreign_format(text);
  if (format && format->command != "stagecraft import huggingface") {
    Diagnostics diagnostics;
    diagnostics.add({Place{std::make_shared<std::string const>(path.string())}, "",
                     text_of(*format), "a config.json of Hugging Face's transformers"});
    diagnostics.throw_if_any();
  }
  return parse_huggingface(text, path.string(), options);
}

std::string to_model_file(HuggingfaceImport const& import, std::string const& origin) {
  return "# " + printable(origin) + ", model_type " + printable(import.model_type) + ": " +
         std::to_string(parameter_count(import.model)) + " parameters" +
         (import.model.experts
              ? ", " + std::to_string(active_parameter_count(import.model)) + " of them active"
              : "") +
         ".\n" + yaml_text(to_json(import.model));
}

}  // namespace stagecraft
