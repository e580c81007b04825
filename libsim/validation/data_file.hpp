#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "libsim/config/csv_table.hpp"
#include "libsim/run/run_config.hpp"
#include "libsim/run/run_variants.hpp"
#include "libsim/validation/measured_values.hpp"

namespace stagecraft {

/// What a cell sets: a key of a run file, with its value.
struct CellSetting {
  Setting setting;                ///< with the content of a file that the cell names
  std::vector<Problem> problems;  ///< why the cell's text is not a value; empty: it is one
};

/// The settings that the cells of one column stand for.
///
/// Cells with the same text share one setting, so that a file with a million rows parses each value
/// and reads each file only once. The place of a value is therefore not that of a cell, but
/// marker() with the line and column of the header; who reports a problem puts the cell's place
/// there. Threads may share an object.
class CellSettings {
 public:
  /// `header` is the place of the key; files are relative to `folder`.
  CellSettings(std::string key, Place header, std::filesystem::path folder);

  std::string const& key() const { return key_; }
  Place const& header() const { return header_; }
  /// The origin of all places of values of this column, and of no other.
  std::shared_ptr<std::string const> const& marker() const { return marker_; }

  /// The setting of a cell, whose text is YAML, as behind `--set KEY=`.
  std::shared_ptr<CellSetting const> of(std::string const& text) const;

 private:
  std::shared_ptr<CellSetting const> parse(std::string const& text) const;

  std::string key_;
  Place header_;
  std::filesystem::path folder_;
  std::shared_ptr<std::string const> marker_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, std::shared_ptr<CellSetting const>> known_;
};

/// One row of a data file: a run, and what was measured of it.
struct DataRow {
  Place place;  ///< of its first cell
  MeasuredValues measured;
  std::optional<RunConfig> run;   ///< nullopt if it has a problem
  std::vector<Problem> problems;  ///< each at the place of its cell; empty: the row can be used
};

/// Measured runs as CSV. A column is a key of a run file, whose cells are values as `--set` takes
/// them, or one of measured_columns(). An empty cell leaves the value of the base. Threads may
/// share an object.
class DataFile {
 public:
  /// Reads a file. Files that its cells name are relative to its folder.
  /// \throws ConfigError  if it is not a table, has a column twice, or has no measured values.
  explicit DataFile(std::filesystem::path const& path);
  /// The same for text in memory; `origin` names it.
  DataFile(std::string text, std::filesystem::path const& origin);

  std::size_t rows() const { return table_.rows(); }

  /// A row over the values of `base`. Pre: row < rows()
  DataRow row(std::size_t row, RunVariants const& base) const;

  /// Refuses columns that are not keys of a run file, and a base which lacks a key, or has a wrong
  /// value for it, that no column sets: the fault of the file and not of its rows.
  /// \throws ConfigError
  void check(RunVariants const& base) const;

 private:
  struct Column {
    std::string name;
    std::unique_ptr<CellSettings> settings;  ///< null for one of measured_columns()
  };

  void read_columns(std::filesystem::path const& folder);
  /// The settings of cells, sections before keys inside them.
  std::vector<std::shared_ptr<CellSetting const>> settings_of(
      std::vector<CsvCell> const& cells) const;
  /// Puts the place of a cell in place of its column's marker.
  Problem with_place(Problem problem, std::vector<CsvCell> const& cells) const;
  bool can_set(std::string const& key) const;
  std::optional<Problem> problem_of_file(Problem problem) const;

  CsvTable table_;
  std::vector<Column> columns_;       ///< in the order of the file
  std::vector<std::size_t> setters_;  ///< columns of keys, in the order in which they are set
};

}  // namespace stagecraft
