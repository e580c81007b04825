#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace stagecraft::ptx {

/// A function of this program.
struct KernelSymbol {
  std::string name;    ///< mangled
  std::string source;  ///< "flash_attention.cu"; empty for what several sources may have
};

/// The functions of this program, from its symbol table (ELF): kernels have no linkage, so that the
/// dynamic linker does not know them.
class KernelSymbols {
 public:
  /// \throws std::runtime_error  if this program's symbols cannot be read
  KernelSymbols();
  /// \throws std::runtime_error  if no function begins there
  KernelSymbol const& at(void const* function) const;

 private:
  std::uintptr_t base_;  ///< where the program was loaded
  std::map<std::uintptr_t, KernelSymbol> functions_{};
};

/// What a mangled name stands for, without the parameters: GCC and nvcc mangle some types and the
/// names of anonymous namespaces in ways of their own.
/// \throws std::runtime_error  if it is no mangled name
std::string readable_name(std::string const& mangled);

}  // namespace stagecraft::ptx
