#include "libsim/training/context_checks.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/config/section_reader.hpp"
#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/training/combination_check.hpp"
#include "libsim/training/key_values.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

constexpr std::string_view two_levels = "{levels: [8, 4], methods: [ulysses, ring]}";

class ContextCheck : CombinationCheck {
 public:
  using CombinationCheck::CombinationCheck;

  void check() const {
    if (!sound({"model", "parallel"}) || config_.parallel.context == 1) return;
    check_rows();
    if (exchanges() > 1) check_heads();
    if (is_ring()) check_windows();
    check_built();
  }

 private:
  /// Whether ranks have two chunks of each sequence.
  bool is_zigzag() const {
    ContextMethod const method = config_.parallel.context_method;
    return method == ContextMethod::ring || method == ContextMethod::all_gather;
  }
  /// Whether keys and values go round.
  bool is_ring() const {
    ContextMethod const method = config_.parallel.context_method;
    return method == ContextMethod::ring || method == ContextMethod::contiguous_ring;
  }
  /// Ranks that exchange rows for heads.
  int exchanges() const {
    bool const is_all = config_.parallel.context_method == ContextMethod::ulysses;
    return is_all ? config_.parallel.context : config_.parallel.context_inner;
  }

  void check_rows() const {
    std::int64_t const c = config_.parallel.context;
    std::int64_t const t = config_.parallel.sequence ? config_.parallel.tensor : 1;
    std::int64_t const s = config_.model.sequence;
    if (is_zigzag() && s % (2 * c) != 0) {
      refuse("parallel.context", c,
             "with " + std::string{name_of(config_.parallel.context_method)} +
                 ", a number whose double divides model.sequence (" + to_text(s) + ")");
    } else if (s % c != 0) {
      refuse("parallel.context", c, "a divisor of model.sequence (" + to_text(s) + ")");
    } else if (s % t == 0 && s / c % t != 0) {
      refuse("parallel.context", c,
             "with parallel.sequence, a number whose product with parallel.tensor (" + to_text(t) +
                 ") divides model.sequence (" + to_text(s) + ")");
    }
  }

  /// A ring has no window: most of its steps would be for nothing.
  void check_windows() const {
    for (LayerRun const& run : layer_runs(config_.model)) {
      if (run.kind.window == 0) continue;
      refuse("parallel.context_method", name_of(config_.parallel.context_method),
             "all_gather or ulysses, as layers have a model.window");
      return;
    }
  }

  void check_heads() const {
    std::int64_t const c = exchanges();
    std::int64_t const t = config_.parallel.tensor;
    auto const check = [&](std::string_view key, std::int64_t heads) {
      if (heads % (t * c) == 0) return true;
      refuse("parallel.context", c,
             "with ulysses, a divisor of " + std::string{key} + " / parallel.tensor (" +
                 to_text(heads) + " / " + to_text(t) + ")");
      return false;
    };
    if (check("model.heads", config_.model.heads)) check("model.kv_heads", config_.model.kv_heads);
  }

  /// Refuses what is right without context parallelism only.
  void check_built() const {
    if (can_split_sequences(config_.model)) return;
    std::string const reason =
        ", as parallel.context is " + to_text(config_.parallel.context) + "; more is not built yet";
    ModelConfig const& model = config_.model;
    bool is_flash = true;
    bool drops = false;
    bool has_sinks = false;
    for (LayerRun const& run : layer_runs(model)) {
      is_flash = is_flash && run.kind.attention == Attention::flash;
      drops = drops || attention_dropout(run.kind) > 0;
      has_sinks = has_sinks || run.kind.sinks;
    }
    if (!is_flash) refuse("model.attention", "unfused", "flash" + reason);
    if (drops) refuse("model.attention_dropout", "above 0", "0" + reason);
    if (has_sinks) refuse("model.sinks", "true", "false" + reason);
  }
};

}  // namespace

bool can_split_sequences(ModelConfig const& model) {
  std::vector<LayerRun> const runs = layer_runs(model);
  return std::ranges::all_of(runs, [](LayerRun const& run) {
    return run.kind.attention == Attention::flash && attention_dropout(run.kind) == 0 &&
           !run.kind.sinks;
  });
}

std::string accepted_text(ContextSplit<ParallelLayout const> /*split*/) {
  return accepted_names<ContextMethod>() + ", or a map such as " + std::string{two_levels};
}

void read_field(ConfigNode const& node, ContextSplit<ParallelLayout> split) {
  ParallelLayout& layout = split.layout;
  if (!node.is_map()) {
    auto const method =
        value_named<ContextMethod>(node.is_scalar() ? node.text().value_or("") : "");
    if (method) {
      layout.context_method = *method;
    } else if (node.is_sound()) {
      node.report(accepted_text(ContextSplit{std::as_const(layout)}));
    }
    return;
  }
  SectionReader reader{node};
  ConfigNode const levels = reader.take("levels");
  ConfigNode const methods = reader.take("methods");
  reader.finish();
  std::vector<ConfigNode> const sizes = levels.items();
  std::vector<ConfigNode> const words = methods.items();
  if (sizes.size() != 2) {
    levels.report("two numbers of ranks, the inner level's first, such as [8, 4]");
    return;
  }
  if (words.size() != 2 || !words[0].reads("ulysses") || !words[1].reads("ring")) {
    methods.report("[ulysses, ring]; TransformerEngine has no other two levels");
    return;
  }
  auto const inner = sizes[0].integer({2, layout.context});
  auto const outer = sizes[1].integer({2, layout.context});
  if (!inner || !outer) return;
  if (*inner * *outer != layout.context) {
    levels.report(
        "'[" + std::to_string(*inner) + ", " + std::to_string(*outer) + "]'",
        "numbers whose product is parallel.context (" + std::to_string(layout.context) + ")");
    return;
  }
  layout.context_inner = static_cast<int>(*inner);
}

nlohmann::ordered_json to_json(ContextSplit<ParallelLayout const> split) {
  ParallelLayout const& layout = split.layout;
  if (layout.context_inner == 1) return name_of(layout.context_method);
  nlohmann::ordered_json json;
  json["levels"] = {layout.context_inner, layout.context / layout.context_inner};
  json["methods"] = {"ulysses", "ring"};
  return json;
}

void check_context(TrainingConfig const& config, ConfigNode const& root) {
  ContextCheck{config, root}.check();
}

}  // namespace stagecraft
