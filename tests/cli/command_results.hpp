#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace stagecraft {

/// A run of `configs/paper`, such as "22b-full", quoted for a shell.
std::string paper_run(std::string const& name);

/// Runs `stagecraft` and parses what it prints. Fails the test where the exit code is not 0, or
/// where there is anything on standard error.
nlohmann::json json_of(std::string const& arguments);

/// Fails the test where `stagecraft` does not refuse `arguments` with exit code 2, nothing on
/// standard output, and all of `parts` on standard error.
void require_refusal(std::string const& arguments, std::vector<std::string> const& parts);

std::string text_of(std::filesystem::path const& file);

/// The words of a text, a space between them.
std::string in_one_line(std::string const& text);

/// The keys of an object, sorted.
std::vector<std::string> keys_of(nlohmann::json const& object);

/// An empty folder that is gone with this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder const&) = delete;
  TemporaryFolder& operator=(TemporaryFolder const&) = delete;

  std::filesystem::path const& path() const { return path_; }

  /// Writes a file into the folder. \return its path
  std::string write(std::string const& name, std::string const& text) const;

  /// Names of what the folder holds, sorted.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path path_;
};

/// Eight replicas of a model of six layers in bf16, on one node whose links move `rate`: a run file
/// in the folder, quoted for a shell.
std::string replicated_run(TemporaryFolder const& folder,
                           std::string const& rate,
                           int microbatches = 1);

}  // namespace stagecraft
