#include "libsim/import/huggingface_refusals.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace stagecraft {
namespace {

constexpr std::string_view experts = "a mixture of experts, which is not modelled";
constexpr std::string_view encoder = "a model with an encoder, not a decoder alone";
constexpr std::string_view recurrent = "a recurrent or state-space model";
constexpr std::string_view own_norms = "its norms of queries and keys are not modelled";

constexpr std::array<std::pair<std::string_view, std::string_view>, 46> not_read{
    {{"mixtral", experts},
     {"qwen2_moe", experts},
     {"qwen3_moe", experts},
     {"qwen3_next", experts},
     {"deepseek", experts},
     {"deepseek_v2", experts},
     {"deepseek_v3", experts},
     {"dbrx", experts},
     {"phimoe", experts},
     {"olmoe", experts},
     {"gpt_oss", experts},
     {"granitemoe", experts},
     {"jetmoe", experts},
     {"arctic", experts},
     {"llama4", experts},
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
     {"gemma2",
      "its norms after attention and MLP, soft-capped logits and windows in every other "
      "layer are not modelled"},
     {"gemma3", "its norms after attention and MLP and windows in most layers are not modelled"},
     {"gemma3_text",
      "its norms after attention and MLP and windows in most layers are not modelled"},
     {"qwen3", own_norms},
     {"olmo2", own_norms},
     {"bloom", "its ALiBi positions and the norm of its embedding are not modelled"},
     {"mpt", "its ALiBi positions and norms without biases are not modelled"},
     {"gptj", "the bias of its head is not modelled"},
     {"phi", "the bias of its head is not modelled"},
     {"gpt_neo",
      "its windows in every other layer and attention without biases are not modelled"}}};

}  // namespace

std::string_view reason_against(std::string_view model_type) {
  auto const found = std::find_if(not_read.begin(), not_read.end(),
                                  [&](auto const& entry) { return entry.first == model_type; });
  return found == not_read.end() ? std::string_view{} : found->second;
}

}  // namespace stagecraft
