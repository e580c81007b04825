#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/config_node.hpp"
#include "libsim/config/problem.hpp"
#include "libsim/import/ignore_list.hpp"
#include "libsim/import/megatron/megatron_flag_table.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// The flags of a Megatron-LM command line, read as argparse would read them: `--flag value`,
/// `--flag=value`, the last of two wins. Former names are stored under their present ones.
///
/// These are problems: unknown flags, missing values and, unless they are ignored, flags whose
/// effect is not modelled.
class MegatronArguments {
 public:
  /// `origin` names the source of the words; all references must outlive this object.
  MegatronArguments(std::vector<ShellWord> const& words,
                    std::string const& origin,
                    IgnoreList& ignored,
                    Diagnostics& diagnostics);

  bool has(std::string_view flag) const { return given_.find(flag) != given_.end(); }

  std::optional<std::int64_t> integer(std::string_view flag, IntegerRange range) const;
  /// A number that is required.
  std::int64_t required(std::string_view flag, IntegerRange range, std::string_view remedy) const;
  std::optional<double> number(std::string_view flag, NumberRange range) const;
  std::optional<std::string> text(std::string_view flag) const;
  std::vector<std::string> texts(std::string_view flag) const;

  /// Reports the value of a flag as wrong.
  void report(std::string_view flag, std::string const& accepted) const;
  /// Reports a problem of the run that does not belong to one flag.
  void report_run(std::string what, std::string found, std::string accepted) const;
  /// Reports a flag whose value is not modelled; if it is ignored, notes what is modelled
  /// `instead`.
  void refuse(std::string_view flag, std::string const& accepted, std::string const& instead);
  bool ignores(std::string_view flag) { return ignored_.covers(flag); }
  void note(std::string text) { notes_.push_back(std::move(text)); }

  /// A given flag that only Megatron-LM of 2022 and before has; empty if there is none.
  std::string old_flag() const;

  /// The notes: what was ignored, what was noted, and what has no effect.
  std::vector<std::string> finish();

 private:
  struct Given {
    ShellWord flag;
    std::vector<ShellWord> values;
    MegatronFlag const* known = nullptr;
  };

  void read(std::vector<ShellWord> const& words);
  void refuse_unknown(ShellWord const& flag, std::string const& name);
  void refuse_others();
  /// Whether a flag that prevents the fusion of kernels concerns kernels that the run does not
  /// have.
  bool is_moot(std::string_view flag) const;
  Place place(ShellWord const& word) const;
  void add(ShellWord const& word,
           std::string_view flag,
           std::string found,
           std::string accepted) const;
  /// The single value of a flag, if it was given.
  ShellWord const* value(std::string_view flag) const;

  std::shared_ptr<std::string const> origin_;
  IgnoreList& ignored_;
  Diagnostics& diagnostics_;
  std::map<std::string, Given, std::less<>> given_;
  std::vector<std::string> notes_;
  std::vector<std::string> strays_;  ///< words that belong to no flag
};

}  // namespace stagecraft
