//! Machine code in executable memory, through LLVM's ORC.
//!
//! Every object gets a library of its own that sees no other: a symbol that code generation left open (a call
//! into a runtime library) is an error here, never a look-up in the process.

use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use inkwell::llvm_sys::orc2::lljit::{
    LLVMOrcCreateLLJIT, LLVMOrcDisposeLLJIT, LLVMOrcLLJITAddObjectFile, LLVMOrcLLJITGetExecutionSession,
    LLVMOrcLLJITMangleAndIntern, LLVMOrcLLJITRef,
};
use inkwell::llvm_sys::orc2::{
    LLVMOrcCJITDylibSearchOrderElement, LLVMOrcCLookupSetElement, LLVMOrcCSymbolMapPairs,
    LLVMOrcExecutionSessionCreateBareJITDylib, LLVMOrcExecutionSessionLookup,
    LLVMOrcExecutionSessionSetErrorReporter, LLVMOrcJITDylibClear, LLVMOrcJITDylibLookupFlags,
    LLVMOrcJITDylibRef, LLVMOrcLookupKind, LLVMOrcSymbolLookupFlags, LLVMOrcSymbolStringPoolEntryStr,
};

/// A session that objects are loaded into.
pub(crate) struct Session {
    jit: LLVMOrcLLJITRef,
    /// Libraries whose object was unloaded. A library cannot be removed, but used again.
    empty: Mutex<Vec<Library>>,
    libraries: AtomicU64,
    /// What ORC reported beside the errors that calls return: the names of missing symbols, for one. Boxed, since ORC
    /// holds its address.
    reports: Box<Mutex<Vec<String>>>,
}

/// A loaded object; dropping it frees its code.
pub(crate) struct Code {
    session: Arc<Session>,
    library: Option<Library>,
    addresses: Vec<usize>,
}

struct Library(LLVMOrcJITDylibRef);

impl Session {
    /// A session on this host, whose code generator must have been initialised.
    pub(crate) fn new() -> Result<Arc<Session>, String> {
        let mut jit = ptr::null_mut();
        // SAFETY: `jit` is a place for the handle; no builder means all defaults.
        check(unsafe { LLVMOrcCreateLLJIT(&mut jit, ptr::null_mut()) })?;
        let reports = Box::<Mutex<Vec<String>>>::default();
        // SAFETY: the handle is the one just made. The reporter gets the address of `reports`, which lives in its box until
        // the session was disposed of.
        unsafe {
            let session = LLVMOrcLLJITGetExecutionSession(jit);
            let context = ptr::from_ref(&*reports).cast_mut().cast();
            LLVMOrcExecutionSessionSetErrorReporter(session, report, context);
        }
        Ok(Arc::new(Session { jit, empty: Mutex::default(), libraries: AtomicU64::new(0), reports }))
    }

    /// Loads an object and finds these functions in it.
    pub(crate) fn load(self: &Arc<Self>, object: &[u8], names: &[&str]) -> Result<Code, String> {
        let library = self.library();
        let name = c"kernel";
        // SAFETY: the slice is valid for its length; LLVM copies it.
        let buffer = unsafe {
            LLVMCreateMemoryBufferWithMemoryRangeCopy(object.as_ptr().cast(), object.len(), name.as_ptr())
        };
        // SAFETY: session and library are alive; the buffer's ownership passes to ORC, also on failure.
        check(unsafe { LLVMOrcLLJITAddObjectFile(self.jit, library.0, buffer) })?;
        // A library in which a look-up failed is not used again.
        let addresses = self.look_up(&library, names).map_err(|error| self.with_reports(error))?;
        Ok(Code { session: Arc::clone(self), library: Some(library), addresses })
    }

    fn library(&self) -> Library {
        if let Some(library) = self.empty.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return library;
        }
        // Relaxed: only the value must be unique.
        let number = self.libraries.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("kernel{number}")).expect("no zero byte in it");
        // SAFETY: the session is alive and copies the name, which no other library has. A bare library has no
        // link to the process's symbols.
        unsafe {
            let session = LLVMOrcLLJITGetExecutionSession(self.jit);
            Library(LLVMOrcExecutionSessionCreateBareJITDylib(session, name.as_ptr()))
        }
    }

    /// An error with what was reported since the last one.
    fn with_reports(&self, mut error: String) -> String {
        for report in self.reports.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            error.push_str("; ");
            error.push_str(&report);
        }
        error
    }

    fn look_up(&self, library: &Library, names: &[&str]) -> Result<Vec<usize>, String> {
        let names: Vec<CString> =
            names.iter().map(|&n| CString::new(n).expect("no zero byte in it")).collect();
        let mut order = LLVMOrcCJITDylibSearchOrderElement {
            JD: library.0,
            JDLookupFlags: LLVMOrcJITDylibLookupFlags::LLVMOrcJITDylibLookupFlagsMatchExportedSymbolsOnly,
        };
        let mut wanted: Vec<LLVMOrcCLookupSetElement> = names
            .iter()
            .map(|name| LLVMOrcCLookupSetElement {
                // SAFETY: the session is alive; the entry's count passes on to the look-up.
                Name: unsafe { LLVMOrcLLJITMangleAndIntern(self.jit, name.as_ptr()) },
                LookupFlags: LLVMOrcSymbolLookupFlags::LLVMOrcSymbolLookupFlagsRequiredSymbol,
            })
            .collect();
        let (sender, receiver) = mpsc::channel::<Found>();
        let context = Box::into_raw(Box::new(sender));
        // SAFETY: both lists are valid for their lengths during the call. `deliver` is called exactly once, perhaps
        // after this call returns, and takes the box.
        unsafe {
            LLVMOrcExecutionSessionLookup(
                LLVMOrcLLJITGetExecutionSession(self.jit),
                LLVMOrcLookupKind::LLVMOrcLookupKindStatic,
                &mut order,
                1,
                wanted.as_mut_ptr(),
                wanted.len(),
                deliver,
                context.cast(),
            );
        }
        let found = receiver.recv().map_err(|_| "the look-up was dropped".to_owned())??;
        let address = |name: &CString| {
            found
                .iter()
                .find(|(n, _)| n == name)
                .map(|&(_, a)| a)
                .ok_or_else(|| format!("no function {name:?}"))
        };
        names.iter().map(address).collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: every `Code` keeps the session alive, so no code of it is in use.
        let error = unsafe { LLVMOrcDisposeLLJIT(self.jit) };
        // Nothing is left to be done about a failure.
        drop(check(error));
    }
}

// SAFETY: ORC's sessions guard their state by a lock of their own; the handles are otherwise only passed on.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}
// SAFETY: a handle into a session, used only through it.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Code {
    /// The addresses of the functions, in the order of the names given to [`Session::load`]. Valid while `self` lives.
    pub(crate) fn addresses(&self) -> &[usize] {
        &self.addresses
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        let Some(library) = self.library.take() else { return };
        // SAFETY: the library belongs to the session, which is alive; whoever holds the addresses holds `self`.
        let cleared = check(unsafe { LLVMOrcJITDylibClear(library.0) });
        if cleared.is_ok() {
            self.session.empty.lock().unwrap_or_else(PoisonError::into_inner).push(library);
        }
    }
}

type Found = Result<Vec<(CString, usize)>, String>;

extern "C" fn deliver(
    error: LLVMErrorRef,
    pairs: LLVMOrcCSymbolMapPairs,
    count: usize,
    context: *mut c_void,
) {
    // SAFETY: the context is the box that `look_up` gave away, delivered once.
    let sender = unsafe { Box::from_raw(context.cast::<mpsc::Sender<Found>>()) };
    let found = check(error).map(|()| {
        (0..count)
            .map(|k| {
                // SAFETY: without an error there are `count` pairs, whose names live during this call.
                unsafe {
                    let pair = &*pairs.add(k);
                    let name = CStr::from_ptr(LLVMOrcSymbolStringPoolEntryStr(pair.Name)).to_owned();
                    (name, pair.Sym.Address as usize)
                }
            })
            .collect()
    });
    // The receiver waits in `look_up`; were it gone, nobody would want the answer.
    drop(sender.send(found));
}

extern "C" fn report(context: *mut c_void, error: LLVMErrorRef) {
    // SAFETY: the context is the session's `reports`, alive and never moved while the session reports.
    let reports = unsafe { &*context.cast::<Mutex<Vec<String>>>() };
    if let Err(text) = check(error) {
        reports.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }
}

/// Takes an error's message; null is none.
fn check(error: LLVMErrorRef) -> Result<(), String> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the error is consumed here, its message copied and freed.
    unsafe {
        let message = LLVMGetErrorMessage(error);
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(message);
        Err(text)
    }
}

#[cfg(test)]
mod tests {
    use inkwell::context::Context;
    use inkwell::targets::FileType;

    use super::*;
    use crate::target::{Processor, Target};

    /// The object of a function `f` that calls a function of that name, or none.
    fn object(callee: Option<&str>) -> Vec<u8> {
        let context = Context::create();
        let (module, builder) = (context.create_module("test"), context.create_builder());
        let signature = context.void_type().fn_type(&[], false);
        let function = module.add_function("f", signature, None);
        builder.position_at_end(context.append_basic_block(function, ""));
        if let Some(name) = callee {
            builder.build_call(module.add_function(name, signature, None), &[], "").expect("a call");
        }
        builder.build_return(None).expect("a return");
        let machine = Target::new(Processor::Host).expect("a target").machine().expect("a machine");
        let buffer = machine.get().write_to_memory_buffer(&module, FileType::Object).expect("an object");
        buffer.as_slice().to_vec()
    }

    /// `abort` is in every process; generated code must not find it.
    #[test]
    fn the_process_has_no_symbols_for_kernels() {
        let plain = object(None);
        let session = Session::new().expect("a session");
        let error = session.load(&object(Some("abort")), &["f"]).err().expect("an error");
        assert!(error.contains("abort"), "{error}");
        assert!(session.load(&plain, &["f"]).is_ok(), "the session lives on");
    }

    /// One name in many objects; what is dropped makes room.
    #[test]
    fn objects_are_apart() {
        let object = object(None);
        let session = Session::new().expect("a session");
        let first = session.load(&object, &["f"]).expect("it loads");
        for _ in 0..10 {
            let other = session.load(&object, &["f"]).expect("it loads");
            assert_ne!(first.addresses(), other.addresses());
        }
        assert_eq!(session.libraries.load(Ordering::Relaxed), 2);
        assert!(session.load(&object, &["g"]).is_err());
    }
}
