#include "libsim/page/category_style.hpp"

#include "libsim/page/page_files.hpp"
#include "libsim/program/category.hpp"

namespace stagecraft {

std::string page_style() {
  std::string light = ":root { ";
  std::string dark = ":root[data-theme=\"dark\"] { ";
  std::string grounds;
  for (CategoryRow const& row : categories) {
    std::string const name = "m-" + std::string{row.name};
    light += "--" + name + ": " + std::string{row.light} + "; ";
    dark += "--" + name + ": " + std::string{row.dark} + "; ";
    grounds += "." + name + " { background: var(--" + name + "); }\n";
  }
  return light + "}\n" + dark + "}\n" + grounds + std::string{page_css()};
}

std::vector<std::string_view> stacked_categories() {
  std::vector<std::string_view> names;
  for (CategoryRow const& row : categories) {
    if (row.kind == CategoryKind::state) names.push_back(row.name);
  }
  auto const above = static_cast<std::ptrdiff_t>(names.size());
  for (CategoryRow const& row : categories) {
    if (row.kind != CategoryKind::state) names.insert(names.begin() + above, row.name);
  }
  return names;
}

}  // namespace stagecraft
