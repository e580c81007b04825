#include "libsim/import/settings_files.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "libsim/config/problem.hpp"
#include "libsim/config/yaml_text.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/import/megatron/megatron_settings.hpp"
#include "libsim/import/text_file.hpp"
#include "libsim/run/foreign_format.hpp"

namespace stagecraft {
namespace {

namespace fs = std::filesystem;

constexpr char const* folder_of_defaults = "primus/configs";

/// Whether a file has Primus' own defaults.
bool has_defaults(fs::path const& file) {
  return file.generic_string().find(folder_of_defaults) != std::string::npos;
}

/// The path of a file that another one names; nullopt if it is not there.
std::optional<fs::path> find_named(fs::path const& namer, std::string const& name) {
  std::error_code ignored;
  fs::path const beside = namer.parent_path() / name;
  bool const is_itself = fs::equivalent(beside, namer, ignored);
  if (!is_itself && fs::is_regular_file(beside, ignored)) return beside;
  fs::path folder = fs::absolute(namer, ignored).parent_path();
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    for (char const* const kind : {"models", "modules"}) {
      fs::path const shipped = folder / folder_of_defaults / kind / "megatron" / name;
      if (fs::is_regular_file(shipped, ignored)) return shipped;
    }
  }
  return std::nullopt;
}

/// Reads files one after the other into one command. Each is read once.
class SettingsFiles {
 public:
  SettingsFiles(std::map<std::string, std::string> const& variables,
                std::vector<Omission>& left_out)
      : variables_{variables}, left_out_{left_out} {}

  /// Appends the flags of the files that this one names, and then its own.
  /// `namer` is the program of the file that names it; empty if none does, or if it is not known.
  void read(fs::path const& file, bool is_named, std::string const& namer = {}) {
    std::error_code ignored;  // a file that is not there is reported when it is read
    fs::path const whole = fs::weakly_canonical(file, ignored);
    if (!known_.insert(whole).second) return;
    open_.push_back(whole);
    MegatronSettings settings = settings_of(file.string(), has_defaults(file) ? "Primus" : namer);
    if (!settings.program.empty() && !is_named) {
      launch_.program = settings.program;
      launch_.notes.push_back("read as a run file of " + settings.program);
    }
    for (NamedFile const& named : settings.files) read_named(file, named, settings.program);
    open_.pop_back();
    for (Omission& omission : settings.left_out) {
      if (has_defaults(file)) omission.effect = OmittedEffect::none;
      left_out_.push_back(std::move(omission));
    }
    launch_.environment.add(settings.environment);
    launch_.arguments.insert(launch_.arguments.end(), settings.flags.begin(), settings.flags.end());
  }

  LaunchCommand command() && { return std::move(launch_); }

 private:
  void read_named(fs::path const& namer, NamedFile const& named, std::string const& program) {
    auto const refuse = [&](std::string const& what, std::string const& accepted) {
      Diagnostics diagnostics;
      diagnostics.add({named.place, named.key,
                       (named.is_map ? "a map" : "'" + printable(named.name) + "'") + what,
                       accepted});
      diagnostics.throw_if_any();
    };
    std::string const accepted = "the name of a YAML file (.yaml), or a list of them";
    if (named.name.empty()) refuse("", accepted);
    std::error_code ignored;
    fs::path const beside = namer.parent_path() / named.name;
    if (fs::is_directory(beside, ignored)) refuse(", a folder", accepted);
    fs::path const extension = fs::path{named.name}.extension();
    if (extension != ".yaml" && extension != ".yml") refuse("", accepted);
    auto const found = find_named(namer, named.name);
    fs::path const whole = fs::weakly_canonical(found.value_or(beside), ignored);
    bool const is_model = named.key == "model" || named.key == "config";  // of another folder
    bool const is_there = found || !is_model;
    if (is_there && std::ranges::find(open_, whole) != open_.end()) {
      refuse(whole == open_.back() ? ", this file itself" : ", which names this file in turn",
             "a file that does not name this one");
    }
    if (found) return read(*found, true, program);
    launch_.notes.push_back("what " + printable(named.name) +
                            " says is not read: it is not beside this file, nor in "
                            "primus/configs of a folder above; --yaml takes it before this file");
  }

  MegatronSettings settings_of(std::string const& file, std::string_view namer) const {
    std::string const text =
        with_variables(read_text_file(file, "a run file with Megatron's names"), variables_);
    Diagnostics diagnostics;
    if (auto const format = foreign_format(text); format && format->program.empty()) {
      diagnostics.add({Place{std::make_shared<std::string const>(file)}, "", text_of(*format),
                       "a run file of Primus, Megatron-Bridge, ms-swift, verl or Megatron-LM"});
    }
    diagnostics.throw_if_any();
    std::optional<YamlNode> const root = parse_yaml(text, file, diagnostics);
    diagnostics.throw_if_any();
    return read_megatron_settings(*root, namer);
  }

  std::map<std::string, std::string> const& variables_;
  std::vector<Omission>& left_out_;
  std::set<fs::path> known_;
  std::vector<fs::path> open_;  ///< files that are being read, each of which names the next
  LaunchCommand launch_;
};

}  // namespace

std::string with_variables(std::string_view text,
                           std::map<std::string, std::string> const& variables) {
  std::string result;
  while (!text.empty()) {
    std::size_t const start = text.find("${");
    std::size_t const end = text.find('}', start);
    if (start == std::string_view::npos || end == std::string_view::npos) break;
    std::string_view const inside = text.substr(start + 2, end - start - 2);
    std::size_t const colon = inside.find(':');
    std::string_view const name = inside.substr(0, colon);
    auto const given = variables.find(std::string{name});
    bool const is_variable = std::ranges::all_of(name, [](unsigned char c) {
      return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_';
    });
    result += text.substr(0, start);
    if (given != variables.end()) {
      result += given->second;
    } else if (is_variable && colon != std::string_view::npos) {
      std::string_view fallback = inside.substr(colon + 1);
      if (fallback.starts_with('-')) fallback.remove_prefix(1);
      result += fallback;
    } else {
      result += text.substr(start, end - start + 1);
    }
    text.remove_prefix(end + 1);
  }
  return result += text;
}

LaunchCommand read_settings_file(std::string const& file,
                                 std::map<std::string, std::string> const& variables,
                                 std::vector<Omission>& left_out) {
  SettingsFiles files{variables, left_out};
  files.read(file, false);
  return std::move(files).command();
}

}  // namespace stagecraft
