#include "libsim/import/huggingface/huggingface_refusals.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace stagecraft {
namespace {

constexpr std::string_view experts = "a mixture of experts that this import does not read";
constexpr std::string_view encoder = "a model with an encoder, not a decoder alone";
constexpr std::string_view recurrent = "a recurrent or state-space model";
constexpr std::string_view images = "a model of images or sound too; its text_config alone may do";

constexpr std::array<std::pair<std::string_view, std::string_view>, 50> not_read{
    {{"qwen3_next", experts},
     {"deepseek", experts},
     {"dbrx", experts},
     // Source: transformers, modeling_phimoe.py, sparsemixer.
     {"phimoe",
      "its router draws choices at random in training and weights each by a softmax of its own "
      "over the logits near the largest; neither that nor the bias of its head is modelled"},
     {"jetmoe", experts},
     {"arctic", experts},
     {"llama4", images},
     {"minimax", experts},
     {"grok-1", experts},
     {"switch_transformers", experts},
     {"jamba", experts},
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
     {"zamba2", recurrent},
     {"diffllama", "its differential attention is not modelled"},
     {"gpt_neo",
      "its windows in every other layer and attention without biases are not modelled"}}};

}  // namespace

std::string_view reason_against(std::string_view model_type) {
  auto const found = std::find_if(not_read.begin(), not_read.end(),
                                  [&](auto const& entry) { return entry.first == model_type; });
  if (found != not_read.end()) return found->second;
  auto const has = [&](std::string_view part) {
    return model_type.find(part) != std::string_view::npos;
  };
  if (has("moe")) return experts;
  if (has("mamba") || has("rwkv") || has("hybrid") || has("recurrent")) return recurrent;
  if (has("_vl") || has("vision") || has("omni") || has("audio") || has("llava")) return images;
  if (has("bert") || has("t5")) return encoder;
  return "no class of transformers that this import knows";
}

}  // namespace stagecraft
