#include "libsim/import/frameworks/framework_import.hpp"

#include "libsim/config/override.hpp"
#include "libsim/config/yaml_text.hpp"
#include "libsim/config/yaml_tree.hpp"
#include "libsim/import/frameworks/toml_tree.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft {
namespace {

std::optional<YamlNode> parse(FileSyntax syntax,
                              std::string_view text,
                              std::string const& origin,
                              Diagnostics& diagnostics) {
  return syntax == FileSyntax::toml ? parse_toml(text, origin, diagnostics)
                                    : parse_yaml(text, origin, diagnostics);
}

nlohmann::ordered_json sections_of(FrameworkRun const& run, FrameworkOptions const& options) {
  nlohmann::ordered_json sections;
  nlohmann::ordered_json& model = sections["model"];
  model["base"] = options.model.empty() ? run.base : options.model;
  model.update(run.model);
  if (options.sequence) model["sequence"] = *options.sequence;
  sections["system"] = options.system;
  if (run.constants.empty()) {
    sections["software"] = run.software;
  } else {
    sections["software"]["base"] = run.software;
    sections["software"].update(run.constants);
  }
  sections.update(run.sections);
  return sections;
}

}  // namespace

ModelConfig model_of(FrameworkRun const& run, FrameworkOptions const& options) {
  return load_model_file(options.model.empty() ? run.base : options.model);
}

FrameworkImport import_framework(Framework const& framework,
                                 std::string_view text,
                                 std::string const& origin,
                                 std::vector<std::string> const& settings,
                                 FrameworkOptions const& options,
                                 Omissions& omissions) {
  Diagnostics diagnostics;
  std::optional<YamlNode> tree = parse(framework.syntax, text, origin, diagnostics);
  diagnostics.throw_if_any();
  for (std::string const& setting : settings) apply_override(*tree, setting, {}, diagnostics);
  ConfigNode const root{*tree, "", diagnostics};
  if (!root.is_map()) root.report(std::string{framework.file});
  diagnostics.throw_if_any();

  FrameworkKeys keys{root, framework.unread, omissions};
  FrameworkRun run;
  framework.read(keys, options, run);
  if (options.model.empty() && run.base.empty()) {
    diagnostics.add({root.place(), "", "no model that is known", "--model NAME"});
  }
  FrameworkImport result;
  result.notes = keys.finish();
  result.left_out = omissions.list();
  diagnostics.throw_if_any();
  result.sections = sections_of(run, options);
  result.text = "# " + std::string{framework.title} + "'s configuration " + printable(origin) +
                ".\n" + yaml_text(result.sections);
  return result;
}

}  // namespace stagecraft
