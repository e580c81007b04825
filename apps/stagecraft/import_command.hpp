#pragma once

#include <string>
#include <vector>

namespace stagecraft {

/// `stagecraft import huggingface config.json` and `stagecraft import megatron -- FLAGS...`: a
/// model or run file on standard output or in a file; what could not be represented on standard
/// error. \return exit code
/// \throws CommandLineError, ConfigError, std::runtime_error
int import_command(std::vector<std::string> const& arguments);

}  // namespace stagecraft
