#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libsim/import/omissions.hpp"
#include "libsim/import/shell/launch_script.hpp"

namespace stagecraft {

/// A file's text with variables `${NAME}` replaced by their values, and `${NAME:default}` by the
/// default if there is none. Others stay as they are.
std::string with_variables(std::string_view text,
                           std::map<std::string, std::string> const& variables);

/// The flags that a YAML file with Megatron's names says, after those of the files that it names
/// for what it leaves out: a model's or a trainer's defaults, which may name others in turn.
/// Settings that are no flags are added to `left_out`; unknown ones of Primus' defaults count as
/// without effect.
///
/// A file that is named is looked for beside the one that names it and, as Primus has its own, in
/// primus/configs/models/megatron and primus/configs/modules/megatron of the folders above. A note
/// says which were not found. `variables` replace ${NAME}.
/// \throws ConfigError  if a file cannot be read, is not YAML, or names itself or a folder.
LaunchCommand read_settings_file(std::string const& file,
                                 std::map<std::string, std::string> const& variables,
                                 std::vector<Omission>& left_out);

}  // namespace stagecraft
