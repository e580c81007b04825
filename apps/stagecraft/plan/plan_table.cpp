#include "apps/stagecraft/plan/plan_table.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>
#include <utility>

#include "apps/stagecraft/plan/plan_figures.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {

namespace {

std::string text_of(RecomputePolicy const& policy) {
  std::string text{name_of(policy.granularity)};
  if (policy.granularity == RecomputeGranularity::full) {
    if (policy.method == RecomputeMethod::block) {
      text += " first " + std::to_string(policy.layers);
    } else if (policy.layers > 1) {
      text += " by " + std::to_string(policy.layers);
    }
  }
  if (policy.store_microbatches.count > 0) {
    text += " +" + std::to_string(policy.store_microbatches.count);
  }
  return text;
}

/// Whether two plans differ only in how many layers or microbatches are recomputed.
bool are_one_family(TrainingConfig a, TrainingConfig b) {
  for (TrainingConfig* const config : {&a, &b}) {
    for (RecomputePolicy& policy : config->recompute) {
      policy.layers = 1;
      policy.store_microbatches.count = policy.store_microbatches.count > 0 ? 1 : 0;
    }
  }
  return a == b;
}

/// Whether the plans of the result differ in a member of their layout.
template <typename Member>
bool differ_in(SearchResult const& result, Member ParallelLayout::*member) {
  Member const& first = result.best.front().config.parallel.*member;
  auto const differs = [&](FoundPlan const& plan) { return plan.config.parallel.*member != first; };
  return std::ranges::any_of(result.best, differs) || std::ranges::any_of(result.front, differs);
}

/// The columns of a table, and what all its rows have in common.
class Columns {
 public:
  explicit Columns(std::size_t rows) : cells_(rows) {}

  template <typename Text>
  void add(std::string heading, Align align, Text const& text) {
    columns_.push_back({std::move(heading), align});
    for (std::size_t row = 0; row < cells_.size(); ++row) cells_[row].push_back(text(row));
    ends_in_numbers_ = false;
  }

  /// A column of small numbers: one space from such a column before it, where others have two.
  template <typename Text>
  void add_number(std::string const& heading, Text const& text) {
    std::size_t width = heading.size();
    for (std::size_t row = 0; row < cells_.size(); ++row) width = std::max(width, text(row).size());
    std::string const space = ends_in_numbers_ ? " " : "";
    auto const padded = [&](std::string const& cell) {
      return space + std::string(width - cell.size(), ' ') + cell;
    };
    if (!ends_in_numbers_) add("", Align::right, [](std::size_t) { return std::string{}; });
    columns_.back().heading += padded(heading);
    for (std::size_t row = 0; row < cells_.size(); ++row) cells_[row].back() += padded(text(row));
    ends_in_numbers_ = true;
  }

  /// Whether rows have different texts. If not, the column becomes a part of common().
  template <typename Text, typename Sentence>
  bool vary(Text const& text, Sentence const& sentence) {
    for (std::size_t row = 1; row < cells_.size(); ++row) {
      if (text(row) != text(0)) return true;
    }
    common_ += (common_.empty() ? "" : ", ") + sentence(0);
    return false;
  }

  std::string const& common() const { return common_; }

  /// The heading and a line for each row.
  std::vector<std::string> lines() const {
    TextTable table{columns_};
    for (auto const& row : cells_) table.add_row(row);
    std::istringstream text{table.text()};
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

 private:
  std::vector<TextTable::Column> columns_;
  std::vector<std::vector<std::string>> cells_;  ///< by row
  std::string common_;
  bool ends_in_numbers_ = false;
};

std::size_t width_of(std::vector<std::string> const& lines) {
  std::size_t width = 0;
  for (std::string const& line : lines) width = std::max(width, columns_of(line));
  return width;
}

/// The lines of a table with the recompute policies behind them, as far as there is room for them,
/// or else below them.
std::string with_recompute(Columns columns, std::vector<std::string> const& texts, int width) {
  constexpr char const* heading = "recompute";
  constexpr char const* below = "by stage:";
  constexpr std::size_t gap = 2;
  std::size_t const taken = width_of(columns.lines()) + gap;
  auto const wide = static_cast<std::size_t>(width);
  std::size_t const room = wide - std::min(wide, taken);
  bool const has_column = room >= columns_of(heading);
  auto const fits = [&](std::size_t row) { return has_column && columns_of(texts[row]) <= room; };
  if (has_column) {
    columns.add(heading, Align::left,
                [&](std::size_t row) { return fits(row) ? texts[row] : std::string{below}; });
  }
  std::vector<std::string> const lines = columns.lines();
  std::string text = lines.front() + "\n";
  for (std::size_t row = 0; row < texts.size(); ++row) {
    text += lines[row + 1] + "\n";
    if (fits(row)) continue;
    std::string const policy = has_column ? texts[row] : "recompute " + texts[row];
    text += "    " + wrapped(policy, width - 4, 4);
  }
  return text;
}

/// `even`, or the layers of the first and the last stage: `11..11`.
std::string layout_text(TrainingConfig const& config) {
  if (config.layout.kind == LayerSplit::Kind::even) return "even";
  return std::to_string(config.layout.first.value_or(0)) + ".." +
         std::to_string(config.layout.last.value_or(0));
}

/// Whether a stage waits for its transfers, in a letter.
std::string short_transfers(TrainingConfig const& config) {
  if (config.parallel.pipeline == 1) return {};
  return config.schedule.p2p == P2p::overlapped ? "o" : "w";
}

/// Explains these words, as far as plans of the result have them; empty if none needs it.
std::string words_legend(SearchResult const& result) {
  bool has_layout = false;
  bool has_block = false;
  bool has_uniform = false;
  bool has_window = false;
  std::set<std::string> transfers;
  for (std::vector<FoundPlan> const* const plans : {&result.best, &result.front}) {
    for (FoundPlan const& plan : *plans) {
      transfers.insert(short_transfers(plan.config));
      has_layout = has_layout || plan.config.layout.kind != LayerSplit::Kind::even;
      for (RecomputePolicy const& policy : plan.config.recompute) {
        bool const is_full = policy.granularity == RecomputeGranularity::full;
        bool const is_block = policy.method == RecomputeMethod::block;
        has_block = has_block || (is_full && is_block);
        has_uniform = has_uniform || (is_full && !is_block && policy.layers > 1);
        has_window = has_window || policy.store_microbatches.count > 0;
      }
    }
  }
  std::string text;
  auto const add = [&text](bool is_used, char const* words) {
    if (is_used) text += (text.empty() ? "" : "; ") + std::string{words};
  };
  add(has_layout, "layout: layers of the first..last stage");
  add(transfers.contains("w") && transfers.contains("o"), "p2p o overlapped, w waits");
  add(has_block, "full first N: the first N layers of a chunk are recomputed");
  add(has_uniform, "full by N: one checkpoint per N layers");
  add(has_window, "+N: N microbatches of each window keep everything");
  return text;
}

}  // namespace

std::string recompute_text(TrainingConfig const& config) {
  std::vector<RecomputePolicy> const& policies = config.recompute;
  std::string text;
  for (std::size_t first = 0; first < policies.size();) {
    std::size_t end = first + 1;
    while (end < policies.size() && policies[end] == policies[first]) ++end;
    if (!text.empty()) text += "; ";
    if (policies.size() > 1) {
      text += std::to_string(first) + (end - first > 1 ? "-" + std::to_string(end - 1) : "") + " ";
    }
    text += text_of(policies[first]);
    first = end;
  }
  return text;
}

std::string plan_legend(SearchResult const& result) {
  std::string text =
      "(per GPU: TFLOP/s, tokens/s, peak, and GiB free on the device; MFU counts attention "
      "over the full square; t tensor, p pipeline, m chunks per stage, d data, b microbatch";
  if (differ_in(result, &ParallelLayout::sequence)) text += ", SP sequence parallelism";
  if (differ_in(result, &ParallelLayout::context)) text += ", c context";
  if (differ_in(result, &ParallelLayout::expert)) text += ", EP expert";
  if (differ_in(result, &ParallelLayout::expert_tensor)) text += ", ETP expert tensor";
  std::string const words = words_legend(result);
  return text + (words.empty() ? "" : "; " + words) + ")\n";
}

std::vector<std::size_t> numbers_of(std::vector<FoundPlan> const& plans) {
  std::vector<std::size_t> all(plans.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

std::vector<std::size_t> ends_of_families(std::vector<FoundPlan> const& front) {
  std::vector<std::size_t> ends;
  for (std::size_t i = 0; i < front.size(); ++i) {
    auto const is_kin = [&](FoundPlan const& other) {
      return are_one_family(other.config, front[i].config);
    };
    auto const at = front.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::none_of(front.begin(), at, is_kin) || std::none_of(at + 1, front.end(), is_kin)) {
      ends.push_back(i);
    }
  }
  return ends;
}

std::string plan_table(std::vector<FoundPlan> const& plans,
                       std::vector<std::size_t> const& shown,
                       PlanOptions const& options,
                       int width) {
  auto const plan = [&](std::size_t row) -> FoundPlan const& { return plans[shown[row]]; };
  auto const config = [&](std::size_t row) -> TrainingConfig const& { return plan(row).config; };
  Columns columns{shown.size()};
  auto const figure = [&](std::string heading, auto const& text) {
    columns.add(std::move(heading), Align::right, [&](std::size_t row) { return text(plan(row)); });
  };
  auto const number = [&](char const* heading, auto const& value) {
    columns.add_number(heading,
                       [&](std::size_t row) { return std::to_string(value(config(row))); });
  };
  auto const varying_number = [&](char const* heading, std::string const& name, auto const& value) {
    auto const text = [&](std::size_t row) { return std::to_string(value(config(row))); };
    if (columns.vary(text, [&](std::size_t row) { return name + " " + text(row); })) {
      columns.add_number(heading, text);
    }
  };
  auto const varying = [&](char const* heading, auto const& value, auto const& sentence) {
    auto const text = [&](std::size_t row) { return value(config(row)); };
    if (columns.vary(text, [&](std::size_t row) { return sentence(config(row)); })) {
      columns.add(heading, Align::left, text);
    }
  };
  using Config = TrainingConfig;
  using Plan = FoundPlan;
  columns.add("#", Align::right, [&](std::size_t row) { return std::to_string(shown[row] + 1); });
  figure("s", [](Plan const& p) { return decimals(to_seconds(p.simulation.iteration), 3); });
  figure("TFLOP/s", [&](Plan const& p) { return decimals(teraflops_per_gpu(p, options), 0); });
  figure("tok/s", [&](Plan const& p) { return decimals(tokens_per_gpu(p, options), 0); });
  figure("MFU %", [](Plan const& p) { return decimals(100 * p.simulation.mfu, 1); });
  figure("peak", [](Plan const& p) { return gibibytes(p.peak()); });
  figure("free", [](Plan const& p) { return gibibytes(free_bytes(p)); });
  varying(
      "SP", [](Config const& c) { return std::string{c.parallel.sequence ? "yes" : "no"}; },
      [](Config const& c) {
        return std::string{c.parallel.sequence ? "" : "no "} + "sequence parallelism";
      });
  number("t", [](Config const& c) { return c.parallel.tensor; });
  number("p", [](Config const& c) { return c.parallel.pipeline; });
  number("m", [](Config const& c) { return c.parallel.interleave; });
  number("d", [](Config const& c) { return c.parallel.data; });
  number("b", [](Config const& c) { return c.batch.micro; });
  if (splits_sequences(options.request)) {
    varying_number("c", "context", [](Config const& c) { return c.parallel.context; });
  }
  if (has_experts(options.request.base.model)) {
    varying_number("EP", "expert", [](Config const& c) { return c.parallel.expert; });
    varying_number("ETP", "expert tensor",
                   [](Config const& c) { return c.parallel.expert_tensor; });
  }
  varying("layout", layout_text, [](Config const& c) { return "layout " + layout_text(c); });
  auto const optimizer = [](Config const& c) {
    return std::string{c.sharding.shares_optimizer() ? "sharded" : "whole"};
  };
  varying("optim", optimizer, [&](Config const& c) { return "optimizer state " + optimizer(c); });
  if (options.rates.tokens) {
    figure("days", [&](Plan const& p) { return decimals(days_of(p, options).value(), 1); });
  }
  if (options.rates.price) {
    std::string const currency = options.rates.currency.empty() ? "" : " " + options.rates.currency;
    figure((options.rates.tokens ? "cost" : "cost per iteration") + currency,
           [&](Plan const& p) { return amount_text(cost_of(p, options).value()); });
  }
  if (options.rates.watts) {
    figure(options.rates.tokens ? "MWh" : "kWh per iteration",
           [&](Plan const& p) { return decimals(energy_of(p, options).value(), 3); });
  }
  varying("p2p", short_transfers, [&](Config const& c) {
    if (c.parallel.pipeline == 1) return std::string{"one stage"};
    return std::string{name_of(c.schedule.p2p)} + " transfers";
  });
  columns.add("schedule", Align::left,
              [&](std::size_t row) { return std::string{name_of(config(row).schedule.kind)}; });
  std::vector<std::string> recompute;
  recompute.reserve(shown.size());
  for (std::size_t const i : shown) recompute.push_back(recompute_text(plans[i].config));
  std::string const common = columns.common();
  std::string const with = shown.size() > 1 ? "all with " : "with ";
  return (common.empty() ? "" : wrapped(with + common, width, 2)) +
         with_recompute(std::move(columns), recompute, width);
}

}  // namespace stagecraft
