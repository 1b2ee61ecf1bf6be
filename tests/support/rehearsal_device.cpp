// SPDX-FileCopyrightText: 2026 taugrid contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/rehearsal_device.hpp"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <vector>

namespace taugrid::test {
namespace {

constexpr auto type = c10::DeviceType::PrivateUse1;

std::atomic<std::int64_t> waits{0}, sent_beside{0}, kept{0};
thread_local int inside = 0;  // a kernel: what it copies is its own business

struct Inside {
  Inside() { ++inside; }
  ~Inside() { --inside; }
};

void host_waits() {
  if (inside == 0) ++waits;
}

struct HostMemory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* memory = c10::alloc_cpu(bytes);
    return {memory, memory, &c10::free_cpu, c10::Device(type, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &c10::free_cpu; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

HostMemory memory;

thread_local c10::StreamId current_stream = 0;

/// One device; work on any stream is over when it has been asked for.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device) const override { return {type(), 0}; }
  c10::Device getDevice() const override { return {type(), 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return stream(current_stream); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(1); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(1); }
  c10::Stream exchangeStream(c10::Stream next) const override {
    return stream(std::exchange(current_stream, next.id()));
  }
  void* getStreamNativeHandle(const c10::Stream s) const override { return reinterpret_cast<void*>(s.id()); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void*, c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override { host_waits(); }
  void synchronizeEvent(void*) const override { host_waits(); }
  void synchronizeDevice(c10::DeviceIndex) const override { host_waits(); }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override { ++kept; }

 private:
  static c10::Stream stream(c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, {c10::DeviceType::PrivateUse1, 0}, id);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void init() const override {}
  at::Device getDeviceFromPtr(void*) const override { return {type, 0}; }
  bool isPinnedPtr(const void*) const override { return false; }
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetAllocator(c10::DeviceType::CPU); }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
};

/// For programs that have this library preloaded: waits of the host, copies to the device on another stream
/// than its first, and tensors kept for a stream that did not make them, in the file that REHEARSAL_COUNTS
/// names.
void report() {
  if (const char* path = std::getenv("REHEARSAL_COUNTS"))
    std::ofstream(path) << waits.load() << " " << sent_beside.load() << " " << kept.load() << "\n";
}

bool registered = [] {
  static Guard guard;
  static Hooks hooks;
  c10::register_privateuse1_backend("rehearsal");
  c10::SetAllocator(type, &memory);
  c10::impl::registerDeviceGuard(type, &guard);
  at::RegisterPrivateUse1HooksInterface(&hooks);
  std::at_quick_exit(report);
  return true;
}();

c10::DispatchKeySet key() { return c10::DispatchKeySet(c10::DispatchKey::PrivateUse1); }

at::ScalarType type_or_default(std::optional<at::ScalarType> dtype) { return dtype.value_or(at::kFloat); }

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, key(), type_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory, key(), type_or_default(dtype));
}

/// The same memory as a tensor of the host.
at::Tensor on_host(const at::Tensor& tensor) {
  if (tensor.device().type() != type) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(tensor.scalar_type()));
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  if (to.is_cpu() || (self.is_cpu() && !non_blocking)) host_waits();
  if (self.is_cpu() && non_blocking && current_stream != 0) ++sent_beside;
  on_host(to).copy_(on_host(self));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  if (to.sizes() != self.sizes()) to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar local_scalar(const at::Tensor& self) {
  host_waits();
  return at::_local_scalar_dense(on_host(self));
}

const at::Tensor& resize(const at::Tensor& self, c10::IntArrayRef size, std::optional<at::MemoryFormat>) {
  auto* inner = self.unsafeGetTensorImpl();
  const auto bytes = static_cast<std::size_t>(c10::multiply_integers(size)) * self.element_size();
  if (self.storage().nbytes() < bytes) {
    const auto& storage = self.storage();
    auto more = memory.allocate(bytes);
    if (storage.nbytes() > 0) std::memcpy(more.get(), storage.data(), storage.nbytes());
    storage.set_data_ptr_noswap(std::move(more));
    storage.set_nbytes(bytes);
  }
  inner->set_sizes_contiguous(size);
  return self;
}

void refuse_mixed(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const auto look = [&](const at::Tensor& tensor) {
    TORCH_CHECK(!tensor.defined() || tensor.device().type() == type || tensor.dim() == 0,
                "rehearsal device: ", op.schema().name(), " mixes tensors of the host and of the device");
  };
  const auto count = op.schema().arguments().size();
  for (std::size_t i = stack.size() - count; i < stack.size(); ++i) {
    if (stack[i].isTensor()) look(stack[i].toTensor());
    if (stack[i].isTensorList()) {
      for (const at::Tensor& tensor : stack[i].toTensorList()) look(tensor);
    }
  }
}

/// The same memory as a tensor of the device; of memory that is not its own, a copy.
at::Tensor on_device(const at::Tensor& host) {
  if (!host.defined()) return host;
  if (!host.storage().resizable())
    return at::empty(host.sizes(), host.options().device(rehearsal_device())).copy_(host);
  auto* owner = new c10::Storage(host.storage());
  c10::DataPtr data(
      owner->mutable_data(), owner, [](void* storage) { delete static_cast<c10::Storage*>(storage); },
      c10::Device(type, 0));
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t{}, owner->nbytes(), std::move(data), &memory, true), key(),
      host.dtype());
  auto* inner = tensor.unsafeGetTensorImpl();
  inner->set_storage_offset(host.storage_offset());
  inner->set_sizes_and_strides(host.sizes(), host.strides());
  return tensor;
}

void refuse_mixed(std::initializer_list<at::Tensor> tensors) {
  for (const auto& tensor : tensors)
    TORCH_CHECK(tensor.device().type() == type,
                "rehearsal device: convolution mixes tensors of the host and of the device");
}

// Convolutions do not reach the fallback: LibTorch asks a device that it does not know for these two.
at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation,
                       bool transposed, c10::IntArrayRef output_padding, std::int64_t groups) {
  refuse_mixed({x, weight});
  const auto on = bias && bias->defined() ? std::optional(on_host(*bias)) : std::nullopt;
  const Inside kernel;
  return on_device(at::convolution(on_host(x), on_host(weight), on, stride, padding, dilation, transposed,
                                   output_padding, groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding,
    std::int64_t groups, std::array<bool, 3> wanted) {
  refuse_mixed({dy, x, weight});
  const Inside kernel;
  const auto [dx, dw, db] =
      at::convolution_backward(on_host(dy), on_host(x), on_host(weight), at::IntArrayRef{weight.size(0)},
                               stride, padding, dilation, transposed, output_padding, groups, wanted);
  return {on_device(dx), on_device(dw), on_device(db)};
}

// Results whose shape depends on numbers: a GPU's host waits for them.
const std::set<std::string> waiting = {"aten::nonzero", "aten::equal", "aten::masked_select",
                                       "aten::_unique2", "aten::is_nonzero"};

/// Whether the host's kernel can work on the device's own memory: it makes no view, places nothing on a
/// device and need not resize what it writes.
bool in_place(const c10::FunctionSchema& schema, const std::vector<c10::IValue>& given) {
  for (const auto& returned : schema.returns())
    if (returned.alias_info() != nullptr && !returned.alias_info()->isWrite()) return false;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    const bool empty =
        given[i].isTensor() && given[i].toTensor().defined() && given[i].toTensor().numel() == 0;
    if (given[i].isDevice() || (alias != nullptr && alias->isWrite() && empty)) return false;
  }
  return true;
}

c10::IValue on_host(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() ? c10::IValue(on_host(value.toTensor())) : value;
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(on_host(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
      list.push_back(tensor && tensor->defined() ? std::optional(on_host(*tensor)) : tensor);
    return list;
  }
  return value;
}

c10::IValue on_device(const c10::IValue& value) {
  if (value.isTensor()) return on_device(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(on_device(tensor));
  return list;
}

/// LibTorch's own fallback copies each tensor to the host and back, which takes most of a rehearsal's time.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse_mixed(op, *stack);
  const auto& schema = op.schema();
  if (waiting.count(schema.name()) != 0) host_waits();
  const Inside kernel;
  const auto count = static_cast<std::ptrdiff_t>(schema.arguments().size());
  const std::vector<c10::IValue> given(stack->end() - count, stack->end());
  if (!in_place(schema, given)) {
    at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
    return;
  }
  std::transform(given.begin(), given.end(), stack->end() - count,
                 [](const auto& argument) { return on_host(argument); });
  // A kernel that writes into its arguments returns references to them, which LibTorch reads when it has
  // dropped them from the stack: their tensors must live until then.
  const std::vector<c10::IValue> alive(stack->end() - count, stack->end());
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  const auto& returns = schema.returns();
  for (std::size_t i = 0; i < returns.size(); ++i) {
    auto& result = (*stack)[stack->size() - returns.size() + i];
    const auto* alias = returns[i].alias_info();
    if (alias == nullptr) {
      result = on_device(result);
      continue;
    }
    for (std::size_t k = 0; k < given.size(); ++k) {  // what it wrote is the caller's own tensor
      const auto* written = schema.arguments()[k].alias_info();
      if (written != nullptr && *written == *alias) result = given[k];
    }
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar);
  m.impl("resize_", &resize);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
  m.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
}

}  // namespace

c10::Device rehearsal_device() { return {type, 0}; }
std::int64_t host_waits_so_far() { return registered ? waits.load() : 0; }

}  // namespace taugrid::test
