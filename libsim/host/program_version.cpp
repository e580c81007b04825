#include "libsim/host/program_version.hpp"

#include <string_view>

#include "libsim/host/git_commit.hpp"

namespace stagecraft {

std::string program_version() {
  std::string const commit{std::string_view{git_commit}.substr(0, 12)};
  return std::string{STAGECRAFT_VERSION} +
         (commit.empty() ? " (commit unknown" : " (commit " + commit) +
         (git_has_changes ? ", modified)" : ")");
}

std::string build_features() { return STAGECRAFT_COMPILER " " STAGECRAFT_BUILD_TYPE; }

}  // namespace stagecraft
