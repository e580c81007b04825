#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/import/omissions.hpp"
#include "libsim/import/shell/launch_script.hpp"
#include "libsim/import/shell/shell_words.hpp"

namespace stagecraft {

/// Another file that a run file names for what it leaves out.
struct NamedFile {
  std::string key;   ///< that names it
  std::string name;  ///< as written
  bool is_map = false;
  Place place{};
};

/// Flags that a run file of a program around Megatron says by names with underscores.
struct MegatronSettings {
  LaunchEnvironment environment{};
  std::vector<NamedFile> files{};
  std::string program{};  ///< whose file it is, such as "Primus"; empty if it is not known
  ShellWords flags{};     ///< as a command line has them
  std::vector<Omission> left_out{};  ///< settings that are not flags
};

/// Reads a YAML file of Primus, Megatron-Bridge, ms-swift, verl or Megatron-LM: the values of all
/// keys that are called as Megatron's flags or configuration classes have them, whatever section
/// they are in. Sections of other models, such as verl's rollout, are left out.
///
/// `namer` is the program of the file that names this one, whose file it then is; without one the
/// file is recognised. Other programs than Megatron-LM have settings of their own, which are left
/// out; elsewhere a name that is near to that of a flag is a flag, which is then refused as
/// misspelt.
MegatronSettings read_megatron_settings(YamlNode const& root, std::string_view namer = {});

/// The value that takes back a flag which an earlier file gives: `--flag=null`.
inline constexpr std::string_view taken_back = "null";

/// The flags of one `section.name=value`; empty if it changes nothing.
ShellWords flags_of_setting(ShellWord const& assignment);

/// The flags of the words of a program around Megatron: `--num_layers N` and
/// `actor.megatron.num_layers=N`. Its own settings are added to `left_out`. `origin` names the
/// source of the words.
ShellWords flags_of_command(ShellWords const& words,
                            std::string const& origin,
                            std::vector<Omission>& left_out);

/// The flags of what a program around Megatron takes where its file or command says nothing else;
/// empty if these are Megatron-LM's.
ShellWords defaults_of(std::string_view program);

/// Whether a name with underscores is that of a flag, or says one.
bool is_setting_name(std::string_view name);

/// `name=value` of a flag of the command line, with its values in brackets if there are several,
/// and `true` if there is none.
std::string joined_setting(std::string name, std::vector<std::string> const& values);

/// Whether a word is such an assignment, and not a flag or a value.
bool is_setting(std::string_view word);

}  // namespace stagecraft
