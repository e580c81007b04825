#include "apps/python/bindings/run.hpp"

#include <algorithm>

#include "libsim/config/override.hpp"
#include "libsim/engine/ready_run.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/sweep/node_text.hpp"

namespace stagecraft::python {
namespace {

RunConfig read(RunSource const& source) {
  return source.text ? parse_run_config(*source.text, source.path, source.overrides)
                     : load_run_config(source.path, source.overrides);
}

/// The setting that `--set KEY=VALUE` asks for, with the content of the file that it names; nullopt
/// if it cannot be read, and `diagnostics` says why.
std::optional<Setting> read_setting(std::string const& key,
                                    std::string const& value,
                                    std::filesystem::path const& folder,
                                    Diagnostics& diagnostics) {
  YamlNode tree;
  tree.kind = YamlNode::Kind::map;
  apply_override(tree, key + "=" + value, {}, diagnostics);
  YamlNode* node = &tree;
  for (std::size_t at = 0; node != nullptr && at <= key.size();) {
    std::size_t const end = std::min(key.find('.', at), key.size());
    node = node->find(std::string_view{key}.substr(at, end - at));
    at = end + 1;
  }
  if (node == nullptr) {
    if (key.find('=') != std::string::npos) {
      diagnostics.add(
          {{}, "", "'" + printable(key) + "'", "a dotted key, such as parallel.tensor"});
    }
    return std::nullopt;
  }
  Place const place = node->place;
  Setting setting{key, std::move(*node), place};
  open_setting(setting, folder, diagnostics);
  return setting;
}

std::vector<Setting const*> pointers_to(std::vector<Setting> const& settings) {
  std::vector<Setting const*> pointers;
  for (Setting const& setting : settings) pointers.push_back(&setting);
  return pointers;
}

}  // namespace

RunVariants const& Run::Base::variants() {
  std::call_once(once, [&] {
    parsed = source.text ? parse_run_variants(*source.text, source.path, source.overrides)
                         : load_run_variants(std::optional{source.path}, source.overrides);
  });
  return *parsed;
}

Run::Run(RunSource source)
    : base_{std::make_shared<Base>(std::move(source))},
      as_read_{read(base_->source)},
      ready_{ready_run(as_read_)} {}

Run::Run(std::shared_ptr<Base> base, std::vector<Setting> settings, RunConfig as_read)
    : base_{std::move(base)},
      settings_{std::move(settings)},
      as_read_{std::move(as_read)},
      ready_{ready_run(as_read_)} {}

std::shared_ptr<Run const> Run::with(Overrides const& overrides) const {
  Diagnostics diagnostics;
  std::vector<Setting> settings = settings_;
  for (auto const& [key, value] : overrides) {
    std::erase_if(settings, [&](Setting const& earlier) { return earlier.key == key; });
    auto setting = read_setting(key, value, base_->source.path.parent_path(), diagnostics);
    if (setting) settings.push_back(std::move(*setting));
  }
  diagnostics.throw_if_any();
  RunConfig config = base_->variants().with(pointers_to(settings));
  return std::shared_ptr<Run const>{new Run{base_, std::move(settings), std::move(config)}};
}

std::string Run::as_given() const {
  Diagnostics diagnostics;
  YamlNode tree = base_->variants().tree_with(pointers_to(settings_), diagnostics);
  if (!as_read_.system.validated) {
    // A text does not know which constants of the system were overridden.
    apply_override(tree, "system.validated=false", {}, diagnostics);
  }
  diagnostics.throw_if_any();
  return exact_text(tree);
}

}  // namespace stagecraft::python
