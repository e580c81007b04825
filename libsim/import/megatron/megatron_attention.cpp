#include "libsim/import/megatron/megatron_attention.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include "libsim/import/layer_list.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

/// Whether every n-th layer attends fully, and no other one does.
bool is_every(std::vector<bool> const& windowed, std::size_t n) {
  for (std::size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i] != ((i + 1) % n != 0)) return false;
  }
  return true;
}

/// The tokens before itself that a token attends to, of the text "127,0" or "(127, 0)".
std::optional<std::int64_t> tokens_before(std::string text) {
  std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == ' '; });
  if (!text.ends_with(",0")) return std::nullopt;
  auto const number = parse_number<std::int64_t>(std::string_view{text}.substr(0, text.size() - 2));
  return number && *number >= 0 ? number : std::nullopt;
}

}  // namespace

std::string window_frequency(LayerWindows const& layers) {
  std::vector<bool> const& windowed = layers.windowed;
  if (std::ranges::find(windowed, false) == windowed.end()) return {};
  for (std::size_t n = 1; n <= windowed.size(); ++n) {
    if (is_every(windowed, n)) return std::to_string(n);
  }
  return layer_list(windowed);
}

void read_megatron_windows(MegatronArguments& arguments, ModelConfig& model) {
  auto const text = arguments.text("window-size");
  if (!text) return;
  auto const before = tokens_before(*text);
  if (!before) {
    arguments.report("window-size", "two numbers, of tokens before and behind, such as 127,0");
    return;
  }
  LayerWindows layers{.size = *before + 1,
                      .windowed = std::vector<bool>(static_cast<std::size_t>(model.layers), true)};
  if (auto const skips = arguments.text("window-attn-skip-freq")) {
    auto const n = parse_number<std::int64_t>(*skips);
    auto const list = parse_layer_list(*skips, model.layers);
    if (n && *n > 0) {
      for (std::int64_t i = 0; i < model.layers; ++i) {
        layers.windowed[static_cast<std::size_t>(i)] = (i + 1) % *n != 0;
      }
    } else if (list) {
      layers.windowed = *list;
    } else {
      arguments.report("window-attn-skip-freq", "a number, or a list of 0 and 1 for the " +
                                                    std::to_string(model.layers) +
                                                    " layers such as [1,1,1,0]*3");
    }
  }
  set_windows(layers, model);
}

void read_megatron_sinks(MegatronArguments& arguments, ModelConfig& model) {
  std::string const type = arguments.text("softmax-type").value_or("vanilla");
  if (type == "learnable") {
    model.sinks = true;
    if (model.attention == Attention::flash) return;
    arguments.refuse("softmax-type", "vanilla, or --attention-backend fused beside it",
                     {"softmax without a learned offset", "more time and memory"});
    model.sinks = false;
  } else if (type != "vanilla") {
    arguments.refuse("softmax-type", "vanilla, learnable",
                     {"softmax without an offset", "either way", OmittedEffect::small});
  }
}

}  // namespace stagecraft
