#pragma once

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stagecraft {

/// Where something stands: a position in a file, or an override on the command line.
struct Place {
  std::shared_ptr<std::string const> origin;  ///< a file as the user named it, or `--set KEY=VALUE`
  int line = 0;                               ///< from 1; 0: the origin as a whole
  int column = 0;                             ///< from 1, in bytes
};

/// `configs/x.yaml:14:11`, or the origin alone where it has no lines.
std::string to_string(Place const& place);

/// Text from a file made fit for a terminal: control characters escaped, cut after 60 bytes.
std::string printable(std::string_view text);

/// One thing wrong with a configuration. The message alone must be enough to mend it.
struct Problem {
  Place place;
  std::string key;       ///< dotted path, empty for the file as a whole
  std::string found;     ///< in quotes where it is the user's own text
  std::string accepted;  ///< what would be right
  /// Wrong whatever the other keys are: an unknown key, a value that cannot be read.
  bool stands_alone = false;
};

/// `place: key: found X; accepted: Y`, without what is empty.
std::string to_string(Problem const& problem);

/// Every problem of a configuration, not only the first. what() has one a line.
class ConfigError : public std::runtime_error {
 public:
  explicit ConfigError(std::vector<Problem> problems);
  std::vector<Problem> const& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// What one load has found so far. Readers add to it and go on, so that all problems of a file come
/// out at once.
class Diagnostics {
 public:
  /// Beyond `most` problems the rest is dropped: a binary file must not print a million lines.
  void add(Problem problem);

  /// Notes a setting without effect.
  void warn(Place const& place, std::string_view key, std::string_view text);

  /// Notes that `key` could not be read, where the problem already stands under another key or
  /// file.
  void mark_unsound(std::string key) { unsound_.insert(std::move(key)); }

  /// Whether nothing is known against `key`, the sections around it or anything below it. Checks
  /// that combine keys ask first, so that one mistake gives one problem.
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
