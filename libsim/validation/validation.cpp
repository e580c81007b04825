#include "libsim/validation/validation.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/config/option_problem.hpp"
#include "libsim/engine/fullest_stage.hpp"
#include "libsim/engine/prediction.hpp"
#include "libsim/engine/settle.hpp"
#include "libsim/engine/stage_allocators.hpp"
#include "libsim/engine/verdict.hpp"
#include "libsim/hardware/provenance.hpp"
#include "libsim/host/worker_pool.hpp"
#include "libsim/interval/time_interval.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/run/run_variants.hpp"
#include "libsim/training/training_config_reader.hpp"
#include "libsim/validation/data_file.hpp"

namespace stagecraft {

namespace {

using Json = nlohmann::ordered_json;

std::string scalar_text(Json const& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// A section stands for its word or its name, if it has one.
std::string value_text(Json const& value, std::string const& key) {
  if (!value.is_object()) return scalar_text(value);
  std::string_view const word = word_key_of(key);
  auto const named = value.find(word.empty() ? std::string{"name"} : std::string{word});
  return scalar_text(named == value.end() ? value : *named);
}

/// The value at a dotted key; null if there is none.
Json const* look_up(Json const& root, std::string const& key) {
  Json const* node = &root;
  for (std::size_t from = 0; from <= key.size();) {
    std::size_t const dot = std::min(key.find('.', from), key.size());
    if (!node->is_object()) return nullptr;
    auto const found = node->find(key.substr(from, dot - from));
    if (found == node->end()) return nullptr;
    node = &*found;
    from = dot + 1;
  }
  return node;
}

void list_keys(Json const& node, std::string const& path, std::vector<std::string>& keys) {
  for (auto const& [name, value] : node.items()) {
    std::string const key = path.empty() ? name : path + "." + name;
    keys.push_back(key);
    if (value.is_object()) list_keys(value, key, keys);
  }
}

/// The values of keys in a row's effective configuration, with defaults filled in, as text: `8`,
/// `full`. Of `schedule` and `recompute` it is their kind, of `system` its name, of `group` the
/// row's group; empty if the row has no such key. Pre: the row has a run.
std::vector<std::string> regime_values(DataRow const& row, std::vector<std::string> const& keys) {
  std::vector<std::string> texts;
  if (keys.empty()) return texts;
  Json const training = to_json(row.run->training);
  Json whole;  // made only if needed: a system may have tables of a thousand measured points
  for (std::string const& key : keys) {
    if (key == "group") {
      texts.push_back(row.measured.group);
      continue;
    }
    Json const* value = look_up(training, key);
    if (value == nullptr) {
      if (whole.is_null()) whole = to_json(*row.run);
      value = look_up(whole, key);
    }
    texts.push_back(value == nullptr ? std::string{} : value_text(*value, key));
  }
  return texts;
}

/// Refuses keys for which a row, whose run is known, has no value.
/// \throws ConfigError  naming `--by`, with the nearest key
void require_regime_keys(DataRow const& row, std::vector<std::string> const& keys) {
  Json const root = to_json(*row.run);
  Diagnostics diagnostics;
  for (std::string const& key : keys) {
    if (key == "group" || look_up(root, key) != nullptr) continue;
    std::vector<std::string> known{"group"};
    list_keys(root, "", known);
    std::string accepted = "keys of a run file, or group, with commas between them";
    accepted += did_you_mean(key, known);
    diagnostics.add(option_problem("--by", "'" + printable(key) + "'", std::move(accepted)));
  }
  diagnostics.throw_if_any();
}

/// What the allocators of a settled run's stages reserve, each asked once.
class Reservations {
 public:
  /// Both must outlive the object.
  Reservations(RunConfig const& run, Prediction const& prediction)
      : plan_{make_plan(as_settled(run.training))},
        allocators_{plan_, run.system},
        stages_{prediction.stages},
        known_(plan_.stages.size()) {}

  /// The bytes of a stage; without a stage, the most of all.
  std::int64_t most(std::int64_t StageReservation::*bytes, std::optional<std::int64_t> stage) {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < known_.size(); ++i) {
      if (stage && i != static_cast<std::size_t>(*stage)) continue;
      most = std::max(most, of(i).reservation.*bytes);
    }
    return most;
  }
  /// Whether all stages can be served. Where the tensors alone are too large, and after the first
  /// stage that cannot, nothing is replayed.
  bool all_fit() {
    std::vector<std::size_t> order(known_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::vector<std::int64_t> excess(known_.size());
    for (std::size_t const i : order) {
      excess[i] = stages_[i].peak() - allocators_.room(StageId::of_index(i));
    }
    std::ranges::sort(order, std::ranges::greater{}, [&](std::size_t i) { return excess[i]; });
    return excess[order.front()] <= 0 &&
           std::ranges::all_of(order, [this](std::size_t i) { return fits(i); });
  }

 private:
  bool fits(std::size_t i) const {
    if (known_[i]) return known_[i]->verdict != Verdict::does_not_fit;
    return allocators_.fits(StageId::of_index(i), stages_[i].rank);
  }
  ReservedStage const& of(std::size_t i) {
    if (!known_[i]) known_[i] = allocators_.reserve(StageId::of_index(i), stages_[i].rank);
    return *known_[i];
  }

  TrainingPlan plan_;
  StageAllocators allocators_;
  std::vector<StagePrediction> const& stages_;
  std::vector<std::optional<ReservedStage>> known_;
};

/// Predicts the run of a row; false if that fails, with the reason in `row`.
bool add_prediction(RunConfig run, ValidatedRow& row) {
  try {
    SettledConfig const training = settled(std::move(run.training), run.system);
    run.training = training.get();
    Prediction const prediction = predict(training, run.system);
    Bytes const fullest = largest_peak(prediction.stages);
    auto const stage = row.measured.stage;
    row.predicted_seconds = to_seconds(prediction.iteration);
    row.relative_error = prediction.relative_error;
    row.interval_seconds =
        time_interval(*row.predicted_seconds, prediction.relative_error, run.training, run.system)
            .seconds;
    row.predicted_allocated_bytes =
        stage ? prediction.stages[static_cast<std::size_t>(*stage)].peak() : fullest.count();
    row.predicted_fits = fullest <= room_for(run.training.memory, run.system.accelerator);
    bool const by_allocator = decides_by_allocator(run.system.software);
    MeasuredValues const& measured = row.measured;
    bool const needs_bytes =
        measured.reserved_bytes || measured.first_allocated_bytes || measured.resident_bytes;
    if (!needs_bytes && !by_allocator) return true;
    Reservations reservations{run, prediction};
    auto const predict_bytes = [&](std::optional<std::int64_t>& predicted,
                                   std::optional<std::int64_t> const& value,
                                   std::int64_t StageReservation::*bytes) {
      if (value) predicted = reservations.most(bytes, stage);
    };
    if (by_allocator) {
      row.predicted_allocated_bytes.reset();
      predict_bytes(row.predicted_allocated_bytes, measured.allocated_bytes,
                    &StageReservation::allocated);
    }
    predict_bytes(row.predicted_reserved_bytes, measured.reserved_bytes,
                  &StageReservation::reserved);
    predict_bytes(row.predicted_first_allocated_bytes, measured.first_allocated_bytes,
                  &StageReservation::first_allocated);
    predict_bytes(row.predicted_resident_bytes, measured.resident_bytes,
                  &StageReservation::resident);
    if (by_allocator) row.predicted_fits = reservations.all_fit();
    return true;
  } catch (std::exception const& error) {
    row.problems.push_back({row.place, "",
                            "a run that cannot be simulated (" + std::string{error.what()} + ")",
                            "one that can"});
    return false;
  }
}

/// Adds the warnings of several threads up.
class WarningCounts {
 public:
  void add(RunConfig const& run) {
    auto const of_system = validation_warning(run.training, run.system);
    if (run.warnings.empty() && !of_system) return;
    std::lock_guard const lock{mutex_};
    for (std::string const& warning : run.warnings) ++counts_[warning];
    if (of_system) ++counts_[*of_system];
  }
  std::map<std::string, std::int64_t> take() { return std::move(counts_); }

 private:
  std::mutex mutex_;
  std::map<std::string, std::int64_t> counts_;
};

/// Checks `by` against the first row of a file that can be read; false if there is none.
bool check_regimes(DataFile const& file,
                   RunVariants const& base,
                   std::vector<std::string> const& by) {
  for (std::size_t i = 0; i < file.rows(); ++i) {
    DataRow const row = file.row(i, base);
    if (!row.run) continue;
    require_regime_keys(row, by);
    return true;
  }
  return false;
}

}  // namespace

std::optional<double> ValidatedRow::time_ratio() const {
  if (!predicted_seconds || !measured.iteration_seconds) return std::nullopt;
  return *predicted_seconds / *measured.iteration_seconds;
}

std::string problem_line(ValidatedRow const& row, Problem const& problem) {
  // Rows differ in what they set, and so also in the problems that they cause in other files.
  bool const is_in_row =
      problem.place.origin == row.place.origin && problem.place.line >= row.place.line;
  return (is_in_row ? "" : to_string(row.place) + ": ") + to_string(problem);
}

Validation validate(std::vector<DataFile> const& files,
                    RunVariants const& base,
                    std::vector<std::string> const& by,
                    int jobs,
                    std::function<void(std::int64_t rows)> const& progress) {
  struct Source {
    DataFile const* file = nullptr;
    std::size_t first = 0;  ///< of its rows in the result
  };
  std::vector<Source> sources;
  std::size_t count = 0;
  bool are_keys_checked = by.empty();
  for (DataFile const& file : files) {
    file.check(base);
    are_keys_checked = are_keys_checked || check_regimes(file, base, by);
    sources.push_back({&file, count});
    count += file.rows();
  }
  Validation result{by, std::vector<ValidatedRow>(count), {}};
  WarningCounts warnings;
  std::mutex counting;
  std::int64_t done = 0;
  parallel_for(jobs, count, [&](std::size_t i) {
    auto const source = std::find_if(sources.rbegin(), sources.rend(),
                                     [&](Source const& s) { return s.first <= i; });
    DataRow row = source->file->row(i - source->first, base);
    ValidatedRow& validated = result.rows[i];
    validated.place = std::move(row.place);
    validated.measured = row.measured;
    validated.problems = std::move(row.problems);
    if (row.run && add_prediction(*row.run, validated)) {
      validated.regimes = regime_values(row, by);
      warnings.add(*row.run);
    }
    std::lock_guard const lock{counting};
    progress(++done);
  });
  result.warnings = warnings.take();
  return result;
}

}  // namespace stagecraft
