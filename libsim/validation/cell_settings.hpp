#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "libsim/run/run_variants.hpp"

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

}  // namespace stagecraft
