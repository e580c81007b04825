#include "libsim/plan/context_checks.hpp"

#include <string>
#include <string_view>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/combination_check.hpp"
#include "libsim/plan/training_names.hpp"

namespace stagecraft {
namespace {

class ContextCheck : CombinationCheck {
 public:
  using CombinationCheck::CombinationCheck;

  void check() const {
    if (!sound({"model", "parallel"}) || config_.parallel.context == 1) return;
    if (config_.parallel.context_method != ContextMethod::ulysses) {
      refuse("parallel.context_method", name_of(config_.parallel.context_method),
             "ulysses with parallel.context above 1; the others are not built yet");
      return;
    }
    check_rows();
    check_heads();
    check_built();
  }

 private:
  void check_rows() const {
    std::int64_t const c = config_.parallel.context;
    std::int64_t const t = config_.parallel.sequence ? config_.parallel.tensor : 1;
    std::int64_t const s = config_.model.sequence;
    if (s % c != 0) {
      refuse("parallel.context", c, "a divisor of model.sequence (" + to_text(s) + ")");
    } else if (s % t == 0 && s / c % t != 0) {
      refuse("parallel.context", c,
             "with parallel.sequence, a number whose product with parallel.tensor (" + to_text(t) +
                 ") divides model.sequence (" + to_text(s) + ")");
    }
  }

  void check_heads() const {
    std::int64_t const c = config_.parallel.context;
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
    std::string const reason =
        ", as parallel.context is " + to_text(config_.parallel.context) + "; more is not built yet";
    ModelConfig const& model = config_.model;
    if (has_experts(model)) {
      refuse("parallel.context", config_.parallel.context,
             "1, as the model has experts; more is not built yet");
    }
    if (has_latents(model)) {
      refuse("parallel.context", config_.parallel.context,
             "1, as the model has model.latent_attention; more is not built yet");
    }
    bool is_flash = true;
    bool drops = false;
    for (LayerRun const& run : layer_runs(model)) {
      is_flash = is_flash && run.kind.attention == Attention::flash;
      drops = drops || attention_dropout(run.kind) > 0;
    }
    if (!is_flash) refuse("model.attention", "unfused", "flash" + reason);
    if (drops) refuse("model.attention_dropout", "above 0", "0" + reason);
  }
};

}  // namespace

void check_context(TrainingConfig const& config, ConfigNode const& root) {
  ContextCheck{config, root}.check();
}

}  // namespace stagecraft
