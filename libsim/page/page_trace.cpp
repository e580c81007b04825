#include "libsim/page/page_trace.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "libsim/cost/cost_model.hpp"
#include "libsim/engine/outside_memory.hpp"
#include "libsim/engine/settle.hpp"
#include "libsim/page/category_style.hpp"
#include "libsim/page/row_reduction.hpp"
#include "libsim/page/trace_origin.hpp"
#include "libsim/page/trace_packer.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/run/pipeline_shape.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

namespace {

/// Numbers in a page are exact up to 2^53.
constexpr std::int64_t most_exact = std::int64_t{1} << 52;
/// States of memory per rank, if its ops are merged into chunks.
constexpr std::size_t most_states = 20'000;

/// The number of ps that count as one, so that the longest time stays exact.
std::int64_t unit_for(std::int64_t iteration) {
  std::int64_t unit = 1;
  while (iteration / unit > most_exact) unit *= 1000;
  return unit;
}

std::vector<std::int32_t> fullest_of_stages(std::vector<RankFigures> const& figures) {
  std::map<std::int32_t, RankFigures const*> stages;
  for (RankFigures const& rank : figures) {
    RankFigures const*& best = stages[rank.stage];
    if (best == nullptr || rank.at_peak.sum() > best->at_peak.sum()) best = &rank;
  }
  std::vector<std::int32_t> ranks;
  ranks.reserve(stages.size());
  for (auto const& [stage, rank] : stages) ranks.push_back(rank->rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

/// The index of a name, which is added if it is missing.
std::int64_t index_in(std::vector<std::string>& names, std::string_view name) {
  auto const found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return found - names.begin();
  names.emplace_back(name);
  return static_cast<std::int64_t>(names.size()) - 1;
}

/// Reads the rows of the ranks to show, reduced to chunks if the page asks for that. The names are
/// those of the trace and of chunks, whose indices in them are `forward_` and `backward_`.
class RankReader {
 public:
  RankReader(TraceReader const& trace, bool is_reduced)
      : trace_{trace},
        is_reduced_{is_reduced},
        names_{trace.names()},
        known_{with_chunks(names_)} {}

  RankTrace read(std::int32_t rank) const {
    RankTrace whole = trace_.read(rank);
    if (!is_reduced_) return whole;
    RankTrace reduced = at_chunk_detail(whole, known_, forward_, backward_, backward_phase_);
    reduced.memory = thinned(reduced.memory, most_states);
    return reduced;
  }
  TraceNames const& names() const { return names_; }
  KnownNames const& known() const { return known_; }

 private:
  KnownNames with_chunks(TraceNames& names) {
    forward_ = index_in(names.op, name_of(TracePhase::forward));
    backward_ = index_in(names.op, name_of(TracePhase::backward));
    backward_phase_ = index_in(names.phase, name_of(TracePhase::backward));
    return KnownNames{names};
  }

  TraceReader const& trace_;
  bool is_reduced_;
  TraceNames names_;
  std::int64_t forward_ = 0;
  std::int64_t backward_ = 0;
  std::int64_t backward_phase_ = 0;
  KnownNames known_;
};

nlohmann::ordered_json categories_json(CategoryBytes const& bytes) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (CategoryRow const& row : categories) json.push_back(bytes[row.category]);
  return json;
}

nlohmann::ordered_json rank_json(RankTrace const& rank, RankFigures const& figures) {
  return {{"rank", rank.rank},
          {"stage", rank.stage},
          {"title", title_of(rank)},
          {"ops", rank.ops.rows()},
          {"states", rank.memory.rows()},
          {"busy", figures.times.busy()},
          {"peak", categories_json(figures.at_peak)}};
}

void add_data(PageTrace& page, TraceReader const& trace, RecomputeShares const& shares) {
  RankReader const reader{trace, page.is_reduced};
  std::int64_t const unit = unit_for(page.iteration);
  TracePacker packer{reader.known(), shares, unit};
  nlohmann::ordered_json ranks = nlohmann::ordered_json::array();
  for (std::int32_t const number : page.shown) {
    RankTrace const rank = reader.read(number);
    packer.add(rank);
    auto const figures = std::find_if(page.figures.begin(), page.figures.end(),
                                      [&](RankFigures const& f) { return f.rank == number; });
    ranks.push_back(rank_json(rank, *figures));
  }
  TraceNames const& names = reader.names();
  nlohmann::ordered_json data = packer.json();
  data["file"] = page.file;
  data["clock"] = name_of(page.meta.clock);
  data["unit"] = unit;
  data["end"] = page.iteration / unit;
  data["names"] = {{"op", names.op}, {"phase", names.phase}, {"stream", names.stream}};
  data["categories"] = nlohmann::ordered_json::array();
  for (CategoryRow const& row : categories) data["categories"].push_back(row.name);
  data["stack"] = stacked_categories();
  data["ranks"] = ranks;
  data["capacity"] = nullptr;
  if (page.capacity) data["capacity"] = *page.capacity;
  data["reserve"] = reserve_of(page);
  data["far_above"] = far_above;
  // Names come from files and may not be UTF-8.
  page.data = data.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<Simulation> predicted_of(PageTrace const& page) {
  if (!page.config || !page.capacity) return std::nullopt;
  System const& system = page.config->system;
  try {
    TrainingPlan const plan = make_plan(settled(page.config->training, system));
    if (fingerprint(plan) != page.meta.plan) return std::nullopt;
    Simulation simulation = simulate(plan, system);
    add_reservations(simulation, plan, system, 1);
    return simulation;
  } catch (CostError const&) {
    return std::nullopt;
  } catch (ScheduleError const&) {
    return std::nullopt;
  }
}

}  // namespace

std::int64_t reserve_of(PageTrace const& trace) {
  if (!trace.config) return 0;
  MemoryConfig const& memory = trace.config->training.memory;
  return keeps_reserve(memory, trace.config->system) ? memory.kept_in_reserve().count() : 0;
}

PageTrace read_page_trace(TraceReader const& trace,
                          std::vector<std::int32_t> const& ranks,
                          std::size_t most_rows) {
  PageTrace page;
  page.file = std::filesystem::path{trace.name()}.filename().string();
  page.meta = trace.meta();
  page.config = run_config_of(trace.meta());
  page.capacity = capacity_of(trace.meta(), page.config);
  page.predicted = predicted_of(page);
  RecomputeShares const shares =
      page.config ? recompute_shares_of(trace.meta(), *page.config) : RecomputeShares{};
  KnownNames const names{trace.names()};
  std::map<std::int32_t, std::size_t> rows;
  for (std::int32_t const number : trace.ranks()) {
    RankTrace const rank = trace.read(number);
    page.figures.push_back(figures_of(rank, names, shares));
    page.iteration = std::max(page.iteration, page.figures.back().times.end);
    page.has_whole_chunks = page.has_whole_chunks || page.figures.back().has_whole_chunks;
    rows[number] = rank.ops.rows();
  }
  page.shown = ranks.empty() ? fullest_of_stages(page.figures) : ranks;
  std::size_t shown_rows = 0;
  for (std::int32_t const rank : page.shown) shown_rows += rows[rank];
  page.is_reduced = shown_rows > most_rows;
  add_data(page, trace, shares);
  return page;
}

RankFigures const& fullest(PageTrace const& trace) {
  return *std::max_element(
      trace.figures.begin(), trace.figures.end(),
      [](RankFigures const& a, RankFigures const& b) { return a.at_peak.sum() < b.at_peak.sum(); });
}

RankFigures const& busiest(PageTrace const& trace) {
  return *std::max_element(
      trace.figures.begin(), trace.figures.end(),
      [](RankFigures const& a, RankFigures const& b) { return a.times.busy() < b.times.busy(); });
}

}  // namespace stagecraft
