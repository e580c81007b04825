#pragma once

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stagecraft {

/// Where a text comes from: a position in a file, or an override on the command line.
struct Place {
  std::shared_ptr<std::string const> origin;  ///< a file as the user named it, or `--set KEY=VALUE`
  int line = 0;                               ///< from 1; 0: the origin as a whole
  int column = 0;                             ///< from 1, in bytes
};

/// `configs/x.yaml:14:11`, or the origin alone if it has no lines.
std::string to_string(Place const& place);

/// Makes text from a file safe for a terminal: escapes control characters, cuts after 60 bytes.
std::string printable(std::string_view text);

/// One mistake in a configuration. The message alone must be enough to correct it.
struct Problem {
  Place place;
  std::string key;       ///< dotted path, empty for the file as a whole
  std::string found;     ///< in quotes if it is the user's own text; empty if it is missing
  std::string accepted;  ///< what would be accepted
  /// It is wrong whatever the other keys are: an unknown key, a value that cannot be read.
  bool stands_alone = false;
  std::string condition{};  ///< under which that would be accepted: "with --ranks solo"
};

/// `place: key: found X; accepted: Y`, without the place and key that are empty; `missing` if
/// nothing was found, and `accepted CONDITION: Y` under a condition.
std::string to_string(Problem const& problem);

/// Every problem of a configuration, not only the first. what() has one per line.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<Problem> problems);
  std::vector<Problem> const& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// The problems that one load has found so far. Readers add to it and continue, so that all
/// problems of a file are reported at once.
class Diagnostics {
 public:
  /// Drops problems beyond the first `most`: a binary file must not print a million lines.
  void add(Problem problem);

  /// Notes a setting without effect.
  void warn(Place const& place, std::string_view key, std::string_view text);

  /// Notes that `key` could not be read although its problem is reported under another key or
  /// file.
  void mark_unsound(std::string key) { unsound_.insert(std::move(key)); }

  /// Whether no problem is known of `key`, of the sections around it or of anything below it.
  /// Checks that combine keys ask this first, so that one mistake gives one problem.
  bool is_sound(std::string_view key) const;

  std::vector<Problem> const& problems() const { return problems_; }
  std::vector<std::string> const& warnings() const { return warnings_; }

  /// \throws ConfigError  if there is any problem.
  void throw_if_any() const;

  static constexpr std::size_t most = 100;

 private:
  std::vector<Problem> problems_;
  std::set<std::string> unsound_;
  std::vector<std::string> warnings_;
};

}  // namespace stagecraft
