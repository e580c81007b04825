#include "libsim/validation/cell_settings.hpp"

#include <optional>
#include <utility>

#include "libsim/config/override.hpp"

namespace stagecraft {

CellSettings::CellSettings(std::string key, Place header, std::filesystem::path folder)
    : key_{std::move(key)},
      header_{std::move(header)},
      folder_{std::move(folder)},
      marker_{std::make_shared<std::string const>(*header_.origin)} {}

std::shared_ptr<CellSetting const> CellSettings::of(std::string const& text) const {
  // A column in which every cell differs is not worth its memory.
  constexpr std::size_t most_known = 4096;
  std::lock_guard const lock{mutex_};
  auto const known = known_.find(text);
  if (known != known_.end()) return known->second;
  auto setting = parse(text);
  if (known_.size() < most_known) known_.emplace(text, setting);
  return setting;
}

std::shared_ptr<CellSetting const> CellSettings::parse(std::string const& text) const {
  Place const place{marker_, header_.line, header_.column};
  Diagnostics diagnostics;
  CellSetting cell;
  cell.setting.key = key_;
  cell.setting.place = header_;
  if (auto value = parse_override_value(text, place, key_, diagnostics)) {
    cell.setting.value = std::move(*value);
    open_setting(cell.setting, folder_, diagnostics);
  }
  cell.problems = diagnostics.problems();
  return std::make_shared<CellSetting const>(std::move(cell));
}

}  // namespace stagecraft
