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
#include "libsim/import/megatron/megatron_flag_table.hpp"
#include "libsim/import/omissions.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// What is modelled if a flag or its value is left out, and how the run differs from that.
struct ModelledInstead {
  std::string what;
  std::string_view direction{};  ///< which way the flag changes the run: "less time"
  OmittedEffect effect = OmittedEffect::large;
};

/// The flags of a Megatron-LM command line, read as argparse would read them: `--flag value`,
/// `--flag=value`, the last of two wins; `--flag=false` takes a flag without a value back, and
/// `name=value` stands for a flag. Former names are stored under their present ones.
///
/// Flags that change the run and are not modelled, and flags that no table knows, are left out.
/// These are problems, unless they are ignored: missing values, flags of another kind of program,
/// unknown flags that are close to a known one; and, if omissions are strict, whatever is left out
/// although it may matter.
class MegatronArguments {
 public:
  /// `origin` names the source of the words; all references must outlive this object.
  MegatronArguments(std::vector<ShellWord> const& words,
                    std::string const& origin,
                    Omissions& omissions,
                    Diagnostics& diagnostics);

  bool has(std::string_view flag) const { return given_.find(flag) != given_.end(); }

  std::optional<std::int64_t> integer(std::string_view flag, IntegerRange range) const;
  /// A number that is required.
  std::int64_t required(std::string_view flag, IntegerRange range, std::string_view remedy) const;
  std::optional<double> number(std::string_view flag, NumberRange range) const;
  std::optional<std::string> text(std::string_view flag) const;
  std::vector<std::string> texts(std::string_view flag) const;

  /// The name under which a flag was given, which may be a former one; empty if it was not.
  std::string_view written_name(std::string_view flag) const;

  /// Reports the value of a flag as wrong.
  void report(std::string_view flag, std::string const& accepted) const;
  /// Reports a problem of the run that does not belong to one flag.
  void report_run(std::string what, std::string found, std::string accepted) const;
  /// Leaves out a flag whose value is not modelled, or reports it if omissions are strict.
  void refuse(std::string_view flag, std::string const& accepted, ModelledInstead const& instead);
  /// Whether a flag is left out because --ignore names it, or because its value is not modelled.
  bool ignores(std::string_view flag) { return omissions_.ignores(flag); }
  /// Whether a flag, which is reported, makes the run another kind of program.
  bool is_of_other_program() const { return is_of_other_program_; }
  bool is_strict() const { return omissions_.is_strict(); }
  void note(std::string text) { notes_.push_back(std::move(text)); }

  /// A given flag that only Megatron-LM of 2022 and before has; empty if there is none.
  std::string old_flag() const;

  /// The notes on what was ignored, assumed and approximated.
  std::vector<std::string> finish();

 private:
  struct Given {
    ShellWord flag;
    std::vector<ShellWord> values;
    MegatronFlag const* known = nullptr;
  };

  /// `are_settings`: whether they stand for a `name=value`, which gives a switch a value.
  void read(std::vector<ShellWord> const& words, bool are_settings = false);
  void leave_out_unknown(ShellWord const& flag, std::string const& name, std::string value);
  /// Leaves out a word that is not known and may be flags.
  void leave_out_open(ShellWord const& word);
  /// Leaves out all that is known and not modelled.
  void leave_out_others();
  void leave_out(std::string_view name, Given const& given);
  /// Whether a flag changes nothing in this run.
  bool is_moot(MegatronFlag const& flag) const;
  Place place(ShellWord const& word) const;
  void add(ShellWord const& word,
           std::string_view flag,
           std::string found,
           std::string accepted) const;
  /// The single value of a flag, if it was given.
  ShellWord const* value(std::string_view flag) const;

  std::shared_ptr<std::string const> origin_;
  Omissions& omissions_;
  Diagnostics& diagnostics_;
  std::map<std::string, Given, std::less<>> given_;
  std::vector<std::string> notes_;
  bool is_of_other_program_ = false;
  std::vector<std::string> strays_;  ///< words that belong to no flag
};

}  // namespace stagecraft
