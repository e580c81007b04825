#include "apps/stagecraft/plan/plan_columns.hpp"

#include <algorithm>
#include <sstream>
#include <utility>

#include "apps/stagecraft/plan/plan_figures.hpp"
#include "apps/stagecraft/plan/plan_words.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/report/operation.hpp"
#include "libsim/report/simulation_json.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {

std::vector<std::string> TableColumns::lines() const {
  TextTable table{columns_};
  for (auto const& row : cells_) table.add_row(row);
  std::istringstream text{table.text()};
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

std::size_t width_of(std::vector<std::string> const& lines) {
  std::size_t width = 0;
  for (std::string const& line : lines) width = std::max(width, columns_of(line));
  return width;
}

namespace {

/// Whether a stage waits for its transfers, in a letter.
std::string short_transfers(TrainingConfig const& config) {
  if (config.parallel.pipeline == 1) return {};
  return config.schedule.p2p == P2p::overlapped ? "o" : "w";
}

/// Makes the columns of a table, without those below `least`, all in its constructor. `legend_` has
/// what the headings mean, in the order of the columns.
class TableMaker {
 public:
  TableMaker(std::vector<ShownPlan> const& plans,
             std::vector<std::size_t> const& numbers,
             TableStyle const& style,
             Expendable least)
      : plans_{plans}, numbers_{numbers}, style_{style}, least_{least}, columns_{plans.size()} {
    add_rates();
    add_operation();
    add_memory();
    add_layout();
  }

  PlanColumns take() { return {std::move(columns_), std::move(legend_)}; }

 private:
  using Config = TrainingConfig;

  template <typename Text>
  void figure(std::string heading, Text const& text) {
    columns_.add(std::move(heading), Align::right,
                 [&](std::size_t row) { return text(*plans_[row], *plans_[row].options); });
  }
  template <typename Value>
  void number(char const* heading, Value const& value) {
    columns_.add_number(
        heading, [&](std::size_t row) { return std::to_string(value(plans_[row]->config)); });
  }
  template <typename Value>
  void varying_number(char const* heading, std::string const& name, Value const& value) {
    auto const text = [&](std::size_t row) { return std::to_string(value(plans_[row]->config)); };
    if (columns_.vary(text, [&](std::size_t row) { return name + " " + text(row); })) {
      columns_.add_number(heading, text);
      legend_.push_back(heading + (" " + name));
    }
  }
  /// What all plans have in common, or a column if they differ and it `is_shown`.
  template <typename Value, typename Sentence>
  bool varying(char const* heading,
               Value const& value,
               Sentence const& sentence,
               bool is_shown = true) {
    auto const text = [&](std::size_t row) { return value(*plans_[row]); };
    if (!columns_.vary(text, [&](std::size_t row) { return sentence(*plans_[row]); })) return false;
    if (!is_shown) return false;
    columns_.add(heading, Align::left, text);
    return true;
  }
  bool shows(Expendable column) const {
    return column >= least_ || (column == Expendable::peak && style_.is_front);
  }

  /// How plans of a comparison multiply, if some do so in fewer bits.
  void add_recipe() {
    auto const recipe = [&](std::size_t row) { return plans_[row]->config.low_precision.recipe; };
    bool has_low = false;
    for (std::size_t row = 0; row < plans_.size(); ++row) has_low |= recipe(row) != Recipe::none;
    if (!has_low) return;
    columns_.add("recipe", Align::left,
                 [recipe](std::size_t row) { return std::string{name_of(recipe(row))}; });
  }

  void add_rates() {
    columns_.add("#", Align::right, [&](std::size_t row) { return std::to_string(numbers_[row]); });
    bool const is_comparison = style_.is_comparison;
    if (is_comparison) {
      columns_.add("system", Align::left, [&](std::size_t row) {
        return printable(plans_[row].options->request.system.name);
      });
      add_recipe();
      figure("GPUs",
             [](FoundPlan const&, PlanOptions const& o) { return std::to_string(o.request.gpus); });
    }
    figure("s", [](FoundPlan const& p, PlanOptions const&) {
      return decimals(to_seconds(p.simulation.iteration), 3);
    });
    legend_.emplace_back("s per iteration");
    if (shows(Expendable::flops) && !is_comparison) {
      figure("TFLOP/s", [](FoundPlan const& p, PlanOptions const& o) {
        return decimals(teraflops_per_gpu(p, o), 0);
      });
    }
    figure("tok/s", [&](FoundPlan const& p, PlanOptions const& o) {
      return decimals(is_comparison ? p.simulation.tokens_per_second : tokens_per_gpu(p, o), 0);
    });
    legend_.emplace_back(is_comparison              ? "tok/s of the job"
                         : shows(Expendable::flops) ? "TFLOP/s and tok/s per GPU"
                                                    : "tok/s per GPU");
    figure("Kh/T", [](FoundPlan const& p, PlanOptions const& o) {
      return thousand_hours_text(figures_of(p, o).gpu_hours_per_trillion_tokens);
    });
    legend_.emplace_back("Kh/T: thousand GPU hours per T (10^12) tokens");
    if (!shows(Expendable::mfu)) return;
    figure("MFU %", [](FoundPlan const& p, PlanOptions const&) {
      return decimals(100 * p.simulation.mfu, 1);
    });
    bool const has_causal =
        (shows(Expendable::causal) && std::ranges::any_of(plans_, differs_causally)) ||
        std::ranges::any_of(plans_, differs_much);
    legend_.emplace_back(has_causal ? "MFU counts all of attention, causal its half"
                                    : "MFU counts all of attention");
    for (ShownPlan const& plan : plans_) {
      std::string const peak = peak_of_mfu(plan->config);
      if (!peak.empty()) legend_.push_back("MFU is of the " + peak);
    }
    if (!has_causal) return;
    figure("causal", [](FoundPlan const& p, PlanOptions const&) {
      return decimals(100 * mfu_causal(p.simulation, p.config), 1);
    });
  }

  /// Whether it matters how attention is counted, and people count what is computed: kernels of
  /// flash attention leave out the half that a causal mask hides.
  static bool differs_causally(ShownPlan const& plan) {
    constexpr double noticed = 0.01;
    return causal_difference(plan) >= noticed;
  }
  /// Whether MFU alone would mislead, so that the two go together.
  static bool differs_much(ShownPlan const& plan) {
    constexpr double misleading = 0.1;
    return causal_difference(plan) >= misleading;
  }
  static double causal_difference(ShownPlan const& plan) {
    if (plan->config.model.attention != Attention::flash) return 0;
    return plan->simulation.mfu - mfu_causal(plan->simulation, plan->config);
  }

  /// Money, energy and days.
  void add_operation() {
    OperatingRates const& rates = plans_.front().options->rates;
    std::string const currency = rates.currency.empty() ? "" : rates.currency + " ";
    if (rates.tokens && shows(Expendable::days)) {
      figure("days", [](FoundPlan const& p, PlanOptions const& o) {
        return decimals(days_of(p, o).value(), 1);
      });
    }
    if (rates.price) {
      bool const is_daily = shows(Expendable::daily);
      if (is_daily) {
        figure("/day", [](FoundPlan const& p, PlanOptions const& o) {
          return amount_text(figures_of(p, o).cost_per_day.value());
        });
      }
      figure(rates.tokens ? "total" : "/T", [](FoundPlan const& p, PlanOptions const& o) {
        OperatingFigures const figures = figures_of(p, o);
        return amount_text(o.rates.tokens ? *figures.cost : *figures.cost_per_trillion_tokens);
      });
      legend_.push_back("cost " + (currency.empty() ? "" : "in " + currency) +
                        (is_daily ? "/day and " : "") + (rates.tokens ? "in total" : "/T tokens"));
    }
    if (rates.watts) {
      figure(rates.tokens ? "MWh" : "J/tok", [](FoundPlan const& p, PlanOptions const& o) {
        return o.rates.tokens ? decimals(energy_of(p, o).value(), 1)
                              : decimals(figures_of(p, o).joules_per_token.value(), 2);
      });
    }
  }

  void add_memory() {
    if (shows(Expendable::peak)) {
      figure("peak", [](FoundPlan const& p, PlanOptions const&) { return gibibytes(p.peak()); });
    }
    figure("free", [](FoundPlan const& p, PlanOptions const&) { return gibibytes(free_bytes(p)); });
    legend_.emplace_back(shows(Expendable::peak) ? "peak, and free on the device: GiB per GPU"
                                                 : "free: GiB on the fullest device");
  }

  void add_layout() {
    auto const sequence = [](FoundPlan const& p) {
      return std::string{p.config.parallel.sequence ? "yes" : "no"};
    };
    auto const has_sequence = [](FoundPlan const& p) {
      return std::string{p.config.parallel.sequence ? "" : "no "} + "sequence parallelism";
    };
    if (varying("SP", sequence, has_sequence, shows(Expendable::split))) {
      legend_.emplace_back("SP sequence parallelism");
    }
    number("t", [](Config const& c) { return c.parallel.tensor; });
    number("p", [](Config const& c) { return c.parallel.pipeline; });
    number("m", [](Config const& c) { return c.parallel.interleave; });
    number("d", [](Config const& c) { return c.parallel.data; });
    number("b", [](Config const& c) { return c.batch.micro; });
    legend_.emplace_back("t tensor, p pipeline, m chunks per stage, d data, b microbatch");
    SearchRequest const& request = plans_.front().options->request;
    if (splits_sequences(request)) {
      varying_number("c", "context", [](Config const& c) { return c.parallel.context; });
    }
    if (has_experts(request.base.model)) {
      varying_number("EP", "expert", [](Config const& c) { return c.parallel.expert; });
      varying_number("ETP", "expert tensor",
                     [](Config const& c) { return c.parallel.expert_tensor; });
    }
    add_split(shows(Expendable::split));
    columns_.add("schedule", Align::left, [&](std::size_t row) {
      return std::string{name_of(plans_[row]->config.schedule.kind)};
    });
  }

  /// How layers, optimizer state and transfers are dealt with.
  void add_split(bool is_shown) {
    auto const layers = [](FoundPlan const& p) { return "layers " + layout_text(p); };
    if (varying("layers", layout_text, layers, is_shown)) legend_.emplace_back("layers by stage");
    if (!std::ranges::all_of(plans_, has_short_form)) {
      add_sharding();
    } else {
      auto const optimizer = [](FoundPlan const& p) {
        return std::string{p.config.sharding.shares_optimizer() ? "sharded" : "whole"};
      };
      auto const state = [&](FoundPlan const& p) { return "optimizer state " + optimizer(p); };
      varying("optim", optimizer, state, is_shown);
    }
    auto const letter = [](FoundPlan const& p) { return short_transfers(p.config); };
    auto const transfers = [](FoundPlan const& p) {
      if (p.config.parallel.pipeline == 1) return std::string{"one stage"};
      return std::string{name_of(p.config.schedule.p2p)} + " transfers";
    };
    if (varying("p2p", letter, transfers, is_shown)) {
      legend_.emplace_back("p2p o overlapped, w waits");
    }
  }

  /// Whether `memory.distributed_optimizer` says all that is shared out.
  static bool has_short_form(ShownPlan const& plan) {
    Sharding const& sharding = plan->config.sharding;
    return sharding == sharding_of(sharding.shares_optimizer());
  }
  static bool has_strategy(ShownPlan const& plan) {
    return plan->config.sharding.strategy != ShardingStrategy::optim_grads_params;
  }
  static bool has_units(ShownPlan const& plan) { return plan->config.sharding.has_units(); }

  /// The kinds, of which some share units: a column that always stays.
  void add_sharding() {
    auto const text = [](FoundPlan const& p) { return sharding_text(p.config.sharding); };
    varying("sharding", text, [&](FoundPlan const& p) { return "sharding " + text(p); });
    auto const has = [&](auto const& property) {
      return std::ranges::any_of(plans_, [&](ShownPlan const& plan) {
        return has_units(plan) && property(plan->config.sharding);
      });
    };
    if (std::ranges::any_of(plans_, has_strategy)) {
      legend_.emplace_back("mfsdp: Megatron-FSDP, with its strategy if parameters are whole");
    }
    if (has([](Sharding const& s) { return s.group > 0; })) {
      legend_.emplace_back("sharding kind/N: units shared by N ranks, copies beyond");
    }
    if (has([](Sharding const& s) { return s.reshard_after_forward.kind == Reshard::Kind::no; })) {
      legend_.emplace_back("kept: units keep their parameters after forward");
    }
    if (has([](Sharding const& s) { return s.traits().has_buckets(); })) {
      legend_.emplace_back("beside, between: where reductions run, of backward passes (overlap)");
    }
  }

  std::vector<ShownPlan> const& plans_;
  std::vector<std::size_t> const& numbers_;
  TableStyle const& style_;
  Expendable least_;
  TableColumns columns_;
  std::vector<std::string> legend_;
};

}  // namespace

PlanColumns plan_columns(std::vector<ShownPlan> const& plans,
                         std::vector<std::size_t> const& numbers,
                         TableStyle const& style,
                         Expendable least) {
  return TableMaker{plans, numbers, style, least}.take();
}

}  // namespace stagecraft
