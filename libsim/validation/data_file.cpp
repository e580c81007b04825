#include "libsim/validation/data_file.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "libsim/config/did_you_mean.hpp"
#include "libsim/config/override.hpp"

namespace stagecraft {

namespace {

// What readers of sections say of a key that they do not know.
constexpr char const* unknown_key = "an unknown key";

std::string trimmed(std::string const& text) {
  std::size_t const begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

bool is_measured_column(std::string const& name) {
  auto const& names = measured_columns();
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_same_place(Place const& a, Place const& b) {
  return a.line == b.line && a.column == b.column && a.origin == b.origin;
}

bool is_at_or_below(std::string const& key, std::string const& section) {
  return key.starts_with(section) && (key.size() == section.size() || key[section.size()] == '.');
}

/// What a message accepts instead of a column that is not a key: the names of other columns, and
/// `keys`, those of a section.
std::string accepted_columns(std::string const& name, std::string const& keys) {
  std::string text = "in " + name.substr(0, name.rfind('.')) + ": " + keys;
  bool const is_of_root = name.find('.') == std::string::npos || name.starts_with("measured.");
  if (is_of_root) text = joined(measured_columns()) + ", or a key of a run file (" + keys + ")";
  return text + did_you_mean(name, measured_columns());
}

}  // namespace

CellSettings::CellSettings(std::string key, Place header, std::filesystem::path folder)
    : key_{std::move(key)},
      header_{std::move(header)},
      folder_{std::move(folder)},
      marker_{std::make_shared<std::string const>(*header_.origin)} {}

std::shared_ptr<CellSetting const> CellSettings::of(std::string const& text) const {
  // A column in which every cell differs is not worth its memory.
  constexpr std::size_t most_known = 4096;
  std::lock_guard const lock{mutex_};
  auto const known = known_.find(text);
  if (known != known_.end()) return known->second;
  auto setting = parse(text);
  if (known_.size() < most_known) known_.emplace(text, setting);
  return setting;
}

std::shared_ptr<CellSetting const> CellSettings::parse(std::string const& text) const {
  Place const place{marker_, header_.line, header_.column};
  Diagnostics diagnostics;
  CellSetting cell;
  cell.setting.key = key_;
  cell.setting.place = header_;
  if (auto value = parse_override_value(text, place, key_, diagnostics)) {
    cell.setting.value = std::move(*value);
    open_setting(cell.setting, folder_, diagnostics);
  }
  cell.problems = diagnostics.problems();
  return std::make_shared<CellSetting const>(std::move(cell));
}

DataFile::DataFile(std::filesystem::path const& path) : DataFile{read_data_text(path), path} {}

DataFile::DataFile(std::string text, std::filesystem::path const& origin)
    : table_{std::move(text), origin.string()} {
  read_columns(origin.parent_path());
}

void DataFile::read_columns(std::filesystem::path const& folder) {
  Diagnostics diagnostics;
  std::set<std::string> names;
  bool has_measurement = false;
  for (CsvCell const& cell : table_.header()) {
    Column column{trimmed(cell.text), nullptr};
    Place const place = table_.place_of(cell);
    bool const is_name = is_dotted_key(column.name) && column.name.find('/') == std::string::npos;
    if (!is_name) {
      diagnostics.add(
          {place, "", "'" + printable(cell.text) + "' as the name of a column",
           "a key of a run file, such as parallel.tensor, or " + joined(measured_columns()), true});
    } else if (!names.insert(column.name).second) {
      diagnostics.add({place, column.name, "a second column", "each column once", true});
    } else if (!is_measured_column(column.name)) {
      column.settings = std::make_unique<CellSettings>(column.name, place, folder);
      setters_.push_back(columns_.size());
    }
    has_measurement = has_measurement || is_measurement(column.name);
    columns_.push_back(std::move(column));
  }
  if (!has_measurement) {
    std::string accepted = "at least one of";
    for (std::string const& name : measured_columns()) {
      if (is_measurement(name)) accepted += (accepted.back() == 'f' ? " " : ", ") + name;
    }
    diagnostics.add({table_.place_of(table_.header().front()), "", "no column with measured values",
                     std::move(accepted), true});
  }
  diagnostics.throw_if_any();
  std::stable_sort(setters_.begin(), setters_.end(), [&](std::size_t a, std::size_t b) {
    auto const depth = [&](std::size_t column) {
      return std::count(columns_[column].name.begin(), columns_[column].name.end(), '.');
    };
    return depth(a) < depth(b);
  });
}

std::vector<std::shared_ptr<CellSetting const>> DataFile::settings_of(
    std::vector<CsvCell> const& cells) const {
  std::vector<std::shared_ptr<CellSetting const>> settings;
  settings.reserve(setters_.size());
  for (std::size_t const column : setters_) {
    if (trimmed(cells[column].text).empty()) continue;
    settings.push_back(columns_[column].settings->of(cells[column].text));
  }
  return settings;
}

Problem DataFile::with_place(Problem problem, std::vector<CsvCell> const& cells) const {
  if (!problem.place.origin) problem.place = table_.place_of(cells.front());
  for (std::size_t const column : setters_) {
    if (problem.place.origin == columns_[column].settings->marker()) {
      problem.place = table_.place_of(cells[column]);
    }
  }
  return problem;
}

DataRow DataFile::row(std::size_t row, RunVariants const& base) const {
  std::vector<CsvCell> const cells = table_.row(row);
  DataRow result;
  result.place = table_.place_of(cells.front());
  Diagnostics diagnostics;
  Place place_of_time;
  Place place_of_stage;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].settings) continue;
    Place const place = table_.place_of(cells[i]);
    if (columns_[i].name == "measured.iteration_seconds") place_of_time = place;
    if (columns_[i].name == "measured.stage") place_of_stage = place;
    read_measured_value(columns_[i].name, cells[i].text, place, result.measured, diagnostics);
  }
  if (result.measured.iteration_seconds && result.measured.fits == false) {
    diagnostics.add({place_of_time, "measured.iteration_seconds",
                     "a time of a run that did not fit (measured.fits is false)",
                     "an empty cell, or measured.fits true", true});
  }
  auto const settings = settings_of(cells);
  std::vector<Setting const*> values;
  values.reserve(settings.size());
  for (auto const& cell : settings) {
    for (Problem const& problem : cell->problems) diagnostics.add(problem);
    values.push_back(&cell->setting);
  }
  if (diagnostics.problems().empty()) {
    try {
      result.run = base.with(values);
    } catch (ConfigError const& error) {
      for (Problem const& problem : error.problems()) diagnostics.add(problem);
    }
  }
  auto const stage = result.measured.stage;
  if (result.run && stage && *stage >= result.run->training.parallel.pipeline) {
    diagnostics.add({place_of_stage, "measured.stage", "'" + std::to_string(*stage) + "'",
                     "a stage below parallel.pipeline (" +
                         std::to_string(result.run->training.parallel.pipeline) + ")",
                     true});
  }
  for (Problem const& problem : diagnostics.problems()) {
    result.problems.push_back(with_place(problem, cells));
  }
  if (!result.problems.empty()) result.run.reset();
  return result;
}

bool DataFile::can_set(std::string const& key) const {
  return std::any_of(setters_.begin(), setters_.end(), [&](std::size_t column) {
    std::string const& name = columns_[column].name;
    return is_at_or_below(key, name) || is_at_or_below(name, key);
  });
}

std::optional<Problem> DataFile::problem_of_file(Problem problem) const {
  for (std::size_t const column : setters_) {
    CellSettings const& settings = *columns_[column].settings;
    bool const is_of_name = problem.found == unknown_key &&
                            is_same_place(problem.place, settings.header()) &&
                            is_at_or_below(settings.key(), problem.key);
    if (!is_of_name) continue;
    problem.key.clear();
    problem.found = "the column '" + printable(settings.key()) + "', which is an unknown key";
    problem.accepted = accepted_columns(settings.key(), problem.accepted);
    return problem;
  }
  bool const is_of_base = problem.stands_alone || problem.found.empty();
  if (!is_of_base || can_set(problem.key)) return std::nullopt;
  if (!problem.place.origin) problem.place = table_.place_of(table_.header().front());
  problem.accepted += ", in a column or in --base RUN.yaml";
  return problem;
}

void DataFile::check(RunVariants const& base) const {
  constexpr std::size_t most_rows = 1000;  // in which a value for each column is looked for
  std::vector<CsvCell> cells = table_.header();
  for (CsvCell& cell : cells) cell.text.clear();
  for (std::size_t row = 0; row < std::min(rows(), most_rows); ++row) {
    std::vector<CsvCell> const of_row = table_.row(row);
    for (std::size_t const column : setters_) {
      if (trimmed(cells[column].text).empty()) cells[column].text = of_row[column].text;
    }
  }
  for (std::size_t const column : setters_) {
    // Without any value it still matters whether the key is one.
    if (trimmed(cells[column].text).empty()) cells[column].text = "0";
  }
  auto const settings = settings_of(cells);
  std::vector<Setting const*> values;
  values.reserve(settings.size());
  for (auto const& cell : settings) values.push_back(&cell->setting);
  Diagnostics diagnostics;
  try {
    static_cast<void>(base.with(values));
  } catch (ConfigError const& error) {
    for (Problem const& problem : error.problems()) {
      if (auto of_file = problem_of_file(problem)) diagnostics.add(std::move(*of_file));
    }
  }
  diagnostics.throw_if_any();
}

}  // namespace stagecraft
