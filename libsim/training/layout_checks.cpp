#include "libsim/training/layout_checks.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "libsim/training/combination_check.hpp"
#include "libsim/training/layer_split.hpp"

namespace stagecraft {
namespace {

/// Checks that the layers can be laid out on the chunks as the layout says. It says nothing if a
/// value that it needs has a problem of its own.
class LayoutCheck : CombinationCheck {
 public:
  using CombinationCheck::CombinationCheck;

  void check_layout() const {
    if (!sound({"model.layers", "parallel.pipeline", "parallel.interleave", "layout"})) return;
    switch (config_.layout.kind) {
      case LayerSplit::Kind::even:
        return check_even_layout();
      case LayerSplit::Kind::first_last:
        return check_first_last_layout();
      case LayerSplit::Kind::list:
        return check_listed_layout();
    }
  }

 private:
  void check_even_layout() const {
    std::int64_t const p = config_.parallel.pipeline;
    std::int64_t const m = chunks_of_copy(config_);
    std::int64_t const layers = config_.model.layers;
    if (layers % (p * m) == 0) return;
    std::string const layers_text = "model.layers (" + to_text(layers) + ")";
    if (m == 1) {
      refuse("parallel.pipeline", p, "a divisor of " + layers_text + ", or a layout");
    } else if (layers % p == 0) {
      refuse("parallel.interleave", m,
             "a number whose product with parallel.pipeline (" + to_text(p) + ") divides " +
                 layers_text + ", or a layout");
    } else {
      refuse("parallel.pipeline", p,
             "a number whose product with parallel.interleave (" + to_text(m) + ") divides " +
                 layers_text + ", or a layout");
    }
  }

  void check_first_last_layout() const {
    LayerSplit const& split = config_.layout;
    ConfigNode const section = root_.child("layout");
    std::int64_t const p = config_.parallel.pipeline;
    std::int64_t const layers = config_.model.layers;
    std::int64_t const between = p - (split.first ? 1 : 0) - (split.last ? 1 : 0);
    std::int64_t const rest = layers - split.first.value_or(0) - split.last.value_or(0);
    std::string const layers_text = "model.layers (" + to_text(layers) + ")";
    bool const gives_both = split.first && split.last;
    std::string const given = gives_both ? "first and last" : split.first ? "first" : "last";
    if (between < 0) {
      section.report("both first and last", "one of them, as parallel.pipeline is 1");
    } else if (between == 0 && rest != 0) {
      section.report(given + " with " + to_text(layers - rest) + " layers",
                     layers_text + " in all");
    } else if (between > 0 && (rest < between || rest % between != 0)) {
      section.report(
          given + (gives_both ? " that leave " : ", which leaves ") + to_text(rest) + " layers",
          "a multiple of the " + to_text(between) +
              (gives_both ? " stages between them, of " : " other stages, of ") + layers_text);
    } else {
      check_stage_layers();
    }
  }

  void check_listed_layout() const {
    std::vector<std::int64_t> const& list = config_.layout.list;
    ConfigNode const section = root_.child("layout");
    std::int64_t const p = config_.parallel.pipeline;
    std::int64_t const m = chunks_of_copy(config_);
    auto const size = static_cast<std::int64_t>(list.size());
    if (size != p && size != p * m) {
      section.report(
          "a list of " + to_text(size),
          "a list of parallel.pipeline (" + to_text(p) + ") numbers" +
              (m > 1 ? ", or of parallel.pipeline x parallel.interleave (" + to_text(p * m) + ")"
                     : ""));
      return;
    }
    std::int64_t const sum = std::accumulate(list.begin(), list.end(), std::int64_t{0});
    if (sum != config_.model.layers) {
      section.report("a list with " + to_text(sum) + " layers in all",
                     "model.layers (" + to_text(config_.model.layers) + ") in all");
      return;
    }
    check_stage_layers();
  }

  /// Pre: the counts of layers add up.
  void check_stage_layers() const {
    LayerSplit const& split = config_.layout;
    ConfigNode const section = root_.child("layout");
    std::int64_t const m = chunks_of_copy(config_);
    bool const is_per_stage =
        static_cast<std::int64_t>(split.list.size()) != config_.parallel.pipeline * m;
    std::vector<std::int64_t> stage_layers = split.list;
    if (split.kind == LayerSplit::Kind::first_last) {
      TrainingConfig whole_stages = config_;
      whole_stages.parallel.interleave = 1;
      whole_stages.schedule = {};
      stage_layers = layers_of_virtual_stages(whole_stages);
    }
    if (is_per_stage) {
      auto const uneven = std::find_if(stage_layers.begin(), stage_layers.end(),
                                       [&](std::int64_t layers) { return layers % m != 0; });
      if (uneven != stage_layers.end()) {
        section.report("a stage with " + to_text(*uneven) + " layers",
                       "multiples of parallel.interleave (" + to_text(m) + ") for each stage");
        return;
      }
    }
    if (split.kind == LayerSplit::Kind::first_last) warn_of_heavy_ends(stage_layers);
  }

  /// A layout that was made for fewer stages may be legal, although nobody means it. Ends with half
  /// as many layers again as the stages between them may be a trial.
  void warn_of_heavy_ends(std::vector<std::int64_t> const& stage_layers) const {
    if (stage_layers.size() < 3) return;
    std::int64_t const ends = std::max(stage_layers.front(), stage_layers.back());
    if (2 * ends <= 3 * stage_layers[1]) return;
    root_.child("layout").warn("the first or last stage has " + to_text(ends) +
                               " layers beside embedding or head, those between have " +
                               to_text(stage_layers[1]));
  }
};

}  // namespace

void check_layout(TrainingConfig const& config, ConfigNode const& root) {
  LayoutCheck{config, root}.check_layout();
}

}  // namespace stagecraft
